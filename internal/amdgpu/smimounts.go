package amdgpu

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolation is a way to keep from the host what the library leaves in /tmp, and
// to have dcm-smi end with its caller.
type isolation struct {
	attr *syscall.SysProcAttr
	args []string // "--private": its mounts are its own, and it hides /tmp
}

// isolations lists the ways, best first. The next is for a caller that may not
// go the one before: it fails with EPERM.
func isolations() []isolation {
	private := []string{"--private"}
	out := []isolation{{ownMounts(), private}, {ownMountsAndUser(), private}}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && privateTmp(string(mounts)) {
		out = append(out, isolation{attr: group()})
	}
	return out
}

// group lets dcm-smi be killed with what it started, and when the caller ends.
func group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}

func ownMounts() *syscall.SysProcAttr {
	a := group()
	a.Unshareflags = unix.CLONE_NEWNS
	return a
}

// ownMountsAndUser is for a caller without CAP_SYS_ADMIN. The user stays the
// same.
func ownMountsAndUser() *syscall.SysProcAttr {
	a := group()
	a.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // to mount there, for a user who is not root
	return a
}

// privateTmp tells from /proc/self/mountinfo whether /tmp is that of a service
// with PrivateTmp=yes (systemd.exec(5)), which is removed when the service ends.
func privateTmp(mountinfo string) bool {
	private := false
	for line := range strings.Lines(mountinfo) {
		const root, point = 3, 4
		if f := strings.Fields(line); len(f) > point && f[point] == "/tmp" {
			private = strings.Contains(f[root], "/systemd-private-") // the last mount is the one on top
		}
	}
	return private
}
