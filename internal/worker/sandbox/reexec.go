package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nobody is the user and the group that own nothing. A user of dcm's own would be
// one more thing that a package has to make and to remove.
const nobody = 65534

// Rights are what is left to the program; nothing at all is what the zero value leaves.
type Rights struct {
	// Nobody has root be a user who owns nothing, with the groups of these devices.
	Nobody  bool
	Devices []string
	// Capabilities stay, as far as the caller has them.
	Capabilities []uintptr
	// Programs may be run: libamd_smi 24.5 crashes where its shell does not start.
	Programs bool
	// Sockets of this host may be connected to, of no other kind and by no other way.
	Sockets bool
	// Nodes of devices that are no disks may be made, given an owner and a mode, and
	// removed.
	Nodes bool
	// Files may be removed and renamed, and their modes and directories changed. libamd_smi
	// needs it for the mutexes in /dev/shm that its users share.
	Files bool
}

// Reexec runs the program once more in its own place, with other arguments, no
// environment and fewer rights: no capability but those left to it, none to be had by a
// set-user-ID program or a file's capabilities. It returns only with an error.
//
// What is taken is taken from one thread, since a process without cgo that loads a
// library by itself has no way to ask all of its threads. The kernel makes that one
// the whole process when it runs a program.
func (r Rights) Reexec(args []string) error {
	runtime.LockOSThread()
	parent := os.Getppid()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot give up new privileges: %w", err)
	}
	// Capabilities that a program could get back; only CAP_SETPCAP may.
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if !slices.Contains(r.Capabilities, c) && unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			break
		}
	}
	if r.Nobody && os.Geteuid() == 0 {
		if err := become(nobody, groupsOf(r.Devices)); err != nil {
			return err
		}
	}
	if err := r.dropCapabilities(); err != nil {
		return err
	}
	// Another user's process is not ended with its parent, unless it says so again.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot end with the caller: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the caller is gone")
	}
	err := syscall.Exec("/proc/self/exe", append([]string{os.Args[0]}, args...), []string{"PATH=/nonexistent", "LANG=C", "GOTRACEBACK=none"})
	return fmt.Errorf("cannot run itself again: %w", err)
}

// become changes the user of this thread. A service without CAP_SETUID stays root,
// without a capability.
func become(user int, groups []uint32) error {
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0); errno != 0 {
		if errno == unix.EPERM {
			return nil
		}
		return fmt.Errorf("cannot have the groups %d: %w", groups, errno)
	}
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, uintptr(user), uintptr(user), uintptr(user)); errno != 0 && errno != unix.EPERM {
			return fmt.Errorf("cannot be user %d: %w", user, errno)
		}
	}
	return nil
}

// groupsOf lists the groups that devices belong to, but for root's.
func groupsOf(patterns []string) []uint32 {
	var out []uint32
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			var st unix.Stat_t
			if unix.Stat(file, &st) == nil && st.Gid != 0 && st.Mode&unix.S_IFMT == unix.S_IFCHR && !slices.Contains(out, st.Gid) {
				out = append(out, st.Gid)
			}
		}
	}
	return out
}

// dropCapabilities drops the capabilities of this thread that are not left to it. With
// no_new_privs not even uid 0 gets them back from running a program.
func (r Rights) dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot drop the ambient capabilities: %w", err)
	}
	have, err := capabilities()
	if err != nil {
		return err
	}
	left := r.left()
	for i := range have {
		have[i].Permitted &= left[i]
		have[i].Effective = have[i].Permitted
		have[i].Inheritable = 0
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &have[0]); err != nil {
		return fmt.Errorf("cannot drop the capabilities: %w", err)
	}
	return nil
}

// left is the capabilities that stay, as bits.
func (r Rights) left() (bits [2]uint32) {
	for _, c := range r.Capabilities {
		bits[c/32] |= 1 << (c % 32)
	}
	return bits
}

func capabilities() (have [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &have[0]); err != nil {
		return have, fmt.Errorf("cannot tell the capabilities: %w", err)
	}
	return have, nil
}
