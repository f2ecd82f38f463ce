package config

import (
	"slices"
	"strings"
)

// Discover says what becomes of services that have a GPU open and are no clients.
type Discover string

// The values of clients.discover.
const (
	Suggest     Discover = "report"  // they are named where they are in the way
	Include     Discover = "include" // they are clients until the next boot
	NoDiscovery Discover = Off
)

// Discoverable reports whether a unit may be made a client without an
// administrator having listed it: a service, and none that others live in or that
// is a way into the host. Those have to be listed.
func Discoverable(name string) bool {
	if full, f := unit(name); f != nil || full != name {
		return false
	}
	stem, ok := strings.CutSuffix(name, ".service")
	if !ok || slices.Contains(never(), stem) {
		return false
	}
	return !slices.ContainsFunc(neverBegins(), func(p string) bool { return strings.HasPrefix(stem, p) })
}

// never are services whose restart ends what others do: sessions, containers,
// virtual machines, the connection of whoever repairs the host.
func never() []string {
	return []string{
		"display-manager", "gdm", "gdm3", "greetd", "lightdm", "lxdm", "sddm", "slim", "wdm", "xdm",
		"ssh", "sshd", "polkit", "cron", "crond", "atd",
		"containerd", "crio", "docker", "podman", "kubelet", "k3s", "k3s-agent", "rke2-agent", "rke2-server",
		"libvirtd", "virtqemud", "slurmd",
	}
}

// neverBegins is how the names of such services begin: systemd's own, users'
// managers, consoles.
func neverBegins() []string {
	return []string{"systemd-", "user@", "user-runtime-dir@", "getty@", "autovt@", "serial-getty@", "console-getty", "container-getty@", "plymouth", "libvirt"}
}

// Lists reports whether the clients name the unit, or its template.
func Lists(clients []string, unit string) bool {
	stem, _, instance := strings.Cut(unit, "@")
	return slices.Contains(clients, unit) || instance && slices.Contains(clients, stem+"@.service")
}
