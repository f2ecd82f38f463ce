package config

import (
	"dcm/internal/engine/config/rule"
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
	if full, f := rule.ParseUnit(name); f != nil || full != name {
		return false
	}
	stem, ok := strings.CutSuffix(name, ".service")
	if !ok {
		return false
	}
	program := programOf(stem)
	return !slices.Contains(never(), program) &&
		!slices.ContainsFunc(neverBegins(), func(p string) bool { return strings.HasPrefix(program, p) })
}

// programOf is what the names of a program's units have in common: of a template
// the name before the instance, and of snap.lxd.daemon the snap.
func programOf(stem string) string {
	stem, _, _ = strings.Cut(stem, "@")
	if snap, ok := strings.CutPrefix(stem, "snap."); ok {
		stem, _, _ = strings.Cut(snap, ".")
	}
	return strings.ToLower(stem)
}

// never are services whose restart ends what others do: sessions, containers,
// virtual machines, jobs, the connection of whoever repairs the host.
func never() []string {
	return slices.Concat(
		[]string{ // ways into the host
			"ssh", "sshd", "dropbear", "teleport", "cockpit", "xrdp", "xrdp-sesman", "x2goserver", "x11vnc", "vncserver",
			"tigervnc", "nxserver", "dcvserver", "guacd", "getty", "agetty", "serial-getty", "container-getty", "autovt",
			"kmsconvt", "rescue", "emergency", "debug-shell", "dracut-shell",
		},
		[]string{ // graphical logins, and what holds a session's devices
			"display-manager", "cosmic-greeter", "emptty", "entrance", "gdm", "gdm3", "gnome-remote-desktop", "greetd", "kdm",
			"lemurs", "lightdm", "lxdm", "ly", "nodm", "plasmalogin", "sddm", "slim", "wdm", "xdm", "seatd", "elogind",
			"accounts-daemon", "rtkit-daemon", "upower",
		},
		[]string{ // the message bus, who asks by it, and what runs others' commands
			"dbus", "dbus-broker", "dbus-daemon", "polkit", "polkitd", "cron", "crond", "anacron", "cronie", "fcron", "atd", "at",
			"user", "user-runtime-dir", "session", "jupyterhub",
		},
		[]string{ // the network
			"networkmanager", "networkmanager-dispatcher", "networking", "network", "modemmanager", "connman", "dhcpcd", "dhclient",
			"firewalld", "ifup", "iwd", "netplan", "nftables", "openvpn", "openvpn-client", "openvpn-server", "opensm",
			"strongswan", "tailscaled", "ufw", "wg-quick", "wicked", "wickedd", "wpa_supplicant", "zerotier-one",
		},
		[]string{ // containers and virtual machines
			"containerd", "cri-docker", "cri-o", "crio", "docker", "dockerd", "incus", "incusd", "k0scontroller", "k0sworker", "k3s",
			"k3s-agent", "kubelet", "lxc", "lxcfs", "lxd", "microk8s", "nomad", "podman", "qemu-kvm", "rke2-agent", "rke2-server",
			"virtchd", "virtlxcd", "virtqemud", "virtstoraged", "virtvzd", "virtxend", "waydroid-container",
		},
		[]string{"condor", "flux", "lsfd", "pbs", "pbs_mom", "sge_execd", "slurmctld", "slurmd", "slurmstepd"}, // jobs
	)
}

// neverBegins is how the names of such services begin: systemd's own, and what
// comes in several.
func neverBegins() []string {
	return []string{"systemd-", "dbus-", "console-getty", "plymouth", "libvirt", "lxc-", "lxd-", "incus-", "docker-", "podman-",
		"containerd-", "pve", "vmware-", "xen", "kubelet-", "networkmanager-", "wickedd-", "wpa_supplicant-", "ssh-", "sshd-"}
}

// Lists reports whether the clients name the unit, or its template.
func Lists(clients []string, unit string) bool {
	stem, _, instance := strings.Cut(unit, "@")
	return slices.Contains(clients, unit) || instance && slices.Contains(clients, stem+"@.service")
}
