package config

import (
	"slices"
	"strings"

	"dcm/internal/engine/config/rule"
)

// Discover is the handling of services that have a GPU open and are not clients.
type Discover string

// The values of clients.discover.
const (
	Suggest     Discover = "report"  // they are reported if they block a change
	Include     Discover = "include" // they are clients until the next boot
	NoDiscovery Discover = Off
)

// Discoverable reports whether dcm may make a unit a client although it is not listed. The unit must
// be a service, must not run the work of other users, and must not give access to the host.
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

// programOf returns the common part of the unit names of a program: the name of a template without the
// instance, and the snap of snap.lxd.daemon.
func programOf(stem string) string {
	stem, _, _ = strings.Cut(stem, "@")
	if snap, ok := strings.CutPrefix(stem, "snap."); ok {
		stem, _, _ = strings.Cut(snap, ".")
	}
	return strings.ToLower(stem)
}

// never lists services whose restart would end sessions, containers, virtual machines, jobs, or the
// administrator's connection.
func never() []string {
	return slices.Concat(
		[]string{ // ways into the host
			"ssh", "sshd", "dropbear", "teleport", "cockpit", "xrdp", "xrdp-sesman", "x2goserver", "x11vnc", "vncserver",
			"tigervnc", "nxserver", "dcvserver", "guacd", "getty", "agetty", "serial-getty", "container-getty", "autovt",
			"kmsconvt", "rescue", "emergency", "debug-shell", "dracut-shell",
		},
		[]string{ // graphical logins, and services that hold the devices of a session
			"display-manager", "cosmic-greeter", "emptty", "entrance", "gdm", "gdm3", "gnome-remote-desktop", "greetd", "kdm",
			"lemurs", "lightdm", "lxdm", "ly", "nodm", "plasmalogin", "sddm", "slim", "wdm", "xdm", "seatd", "elogind",
			"accounts-daemon", "rtkit-daemon", "upower",
		},
		[]string{ // the message bus, its authorisation, and services that run commands of users
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

// neverBegins lists prefixes of the names of such services: those of systemd, and families of
// services.
func neverBegins() []string {
	return []string{"systemd-", "dbus-", "console-getty", "plymouth", "libvirt", "lxc-", "lxd-", "incus-", "docker-", "podman-",
		"containerd-", "pve", "vmware-", "xen", "kubelet-", "networkmanager-", "wickedd-", "wpa_supplicant-", "ssh-", "sshd-"}
}

// Lists reports whether the clients name the unit, or its template.
func Lists(clients []string, unit string) bool {
	stem, _, instance := strings.Cut(unit, "@")
	return slices.Contains(clients, unit) || instance && slices.Contains(clients, stem+"@.service")
}
