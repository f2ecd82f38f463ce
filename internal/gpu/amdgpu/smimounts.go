package amdgpu

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"dcm/internal/worker/call"
)

// isolations lists the ways to hide the library's files in /tmp from the host, best first.
// With --private, dcm-smi has its own mount namespace and mounts over /tmp.
func isolations() []call.Way {
	private := []string{"--private"}
	out := []call.Way{{Args: private, Attr: ownMounts()}, {Args: private, Attr: ownMountsAndUser()}}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && privateTmp(string(mounts)) {
		out = append(out, call.Way{Attr: call.Group()})
	}
	return out
}

func ownMounts() *syscall.SysProcAttr {
	a := call.Group()
	a.Unshareflags = unix.CLONE_NEWNS
	return a
}

// ownMountsAndUser is for a caller without CAP_SYS_ADMIN. It maps the user to itself.
func ownMountsAndUser() *syscall.SysProcAttr {
	a := call.Group()
	a.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // needed for mounting
	return a
}

// privateTmp reports from /proc/self/mountinfo whether /tmp is that of a service with
// PrivateTmp=yes (systemd.exec(5)), which systemd removes when the service ends.
func privateTmp(mountinfo string) bool {
	private := false
	for line := range strings.Lines(mountinfo) {
		const root, point = 3, 4
		if f := strings.Fields(line); len(f) > point && f[point] == "/tmp" {
			private = strings.Contains(f[root], "/systemd-private-") // the last mount is on top
		}
	}
	return private
}
