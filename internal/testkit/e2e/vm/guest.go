package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"dcm/internal/testkit/e2e"
)

// Guest is a Debian release with one of its kernels.
type Guest struct {
	Name   string
	recipe e2e.Recipe
	config string   // options of a kernel that is built for the guest; "" for Debian's kernel
	kernel []string // parameters of the kernel
}

// Guests returns the kernels that the tests run on, by name: those of two releases, the newest one that
// Debian builds for the later release, and one built of the source of that. The last guest has a policy of
// SELinux.
func Guests() map[string]Guest {
	packages := []string{
		"apparmor", "busybox-static", "dbus", "iproute2", "kexec-tools", "make", "munge", "podman", "polkitd", "procps",
		"slurm-client", "slurmctld", "slurmd", "systemd-container", "udev",
	}
	kernel := []string{"linux-headers-amd64", "linux-image-amd64"}
	with := func(more ...string) []string { return append(packages[:len(packages):len(packages)], more...) }
	return map[string]Guest{
		// podman of that release needs this container runtime.
		"bookworm": {Name: "bookworm", recipe: e2e.Recipe{Suite: "bookworm", Packages: with(append(kernel, "runc")...)}},
		"trixie":   {Name: "trixie", recipe: e2e.Recipe{Suite: "trixie", Packages: with(append(kernel, "crun")...)}},
		// The headers in backports depend on a compiler without its assembler.
		"backports": {Name: "backports", recipe: e2e.Recipe{Suite: "trixie", Packages: with("binutils", "crun"), Backports: kernel}},
		// The kernel has the controller of device memory. The packages are what its build needs.
		"dmem": {Name: "dmem", config: dmemConfig, recipe: e2e.Recipe{
			Suite: "trixie", Packages: with("bc", "bison", "crun", "flex", "gcc", "libc6-dev", "libelf-dev"), Backports: []string{"linux-source"},
		}},
		"selinux": {
			Name: "selinux", kernel: []string{"security=selinux", "selinux=1", "enforcing=1"},
			recipe: e2e.Recipe{Suite: "trixie", Packages: with(append(kernel, "crun", "policycoreutils", "selinux-policy-default")...)},
		},
	}
}

// Missing returns why no virtual machine can run here, or nil.
func Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("virtual machines' disks are made as root")
	}
	for _, tool := range []string{"qemu-system-x86_64", "qemu-img", "mmdebstrap", "mke2fs", "cpio", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("virtual machines need %s", tool)
		}
	}
	return nil
}
