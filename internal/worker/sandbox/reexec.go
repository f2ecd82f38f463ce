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

// nobodyID is the ID of a user and of a group that own no files. dcm does not create a
// user for this.
const nobodyID = 65534

// Rights are the privileges that the program keeps; the zero value keeps none.
type Rights struct {
	// Unprivileged changes the user from root to nobodyID, with the groups that own the devices.
	Unprivileged bool
	Devices      []string
	// Capabilities are kept if the caller has them.
	Capabilities []uintptr
	// Programs may be executed: libamd_smi 24.5 crashes if its shell does not start.
	Programs bool
	// Sockets of the family AF_UNIX may be created and connected.
	Sockets bool
	// Nodes of character devices may be created, given an owner and a mode, and removed.
	Nodes bool
	// Files may be removed and renamed, and modes and directories changed. libamd_smi needs
	// it for shared mutexes in /dev/shm.
	Files bool
}

// Reexec executes the program again with other arguments, a fixed environment and fewer privileges: it
// keeps only the capabilities of r, and gains none from set-user-ID programs or file capabilities. It
// returns only if it fails.
//
// It drops the privileges of one thread and then calls execve(2), which ends the other threads. A
// process without cgo that loads C libraries cannot change all threads.
func (r Rights) Reexec(args []string) error {
	runtime.LockOSThread()
	parent := os.Getppid()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set no_new_privs: %w", err)
	}
	// Clear the bounding set. Without CAP_SETPCAP it cannot be changed.
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if !slices.Contains(r.Capabilities, c) && unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			break
		}
	}
	if r.Unprivileged && os.Geteuid() == 0 {
		if err := become(nobodyID, groupsOf(r.Devices)); err != nil {
			return err
		}
	}
	if err := r.dropCapabilities(); err != nil {
		return err
	}
	// Set the parent-death signal again, since the change of the user cleared it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set the parent-death signal: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the caller has exited")
	}
	err := syscall.Exec("/proc/self/exe", append([]string{os.Args[0]}, args...), []string{"PATH=/nonexistent", "LANG=C", "GOTRACEBACK=none"})
	return fmt.Errorf("cannot execute the program again: %w", err)
}

// become changes the user of this thread. A process without CAP_SETUID stays root, without
// capabilities.
func become(user int, groups []uint32) error {
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(list), 0); errno != 0 {
		if errno == unix.EPERM {
			return nil
		}
		return fmt.Errorf("cannot change to groups %d: %w", groups, errno)
	}
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, uintptr(user), uintptr(user), uintptr(user)); errno != 0 && errno != unix.EPERM {
			return fmt.Errorf("cannot change to user %d: %w", user, errno)
		}
	}
	return nil
}

// groupsOf returns the groups that own the devices, without root.
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

// dropCapabilities drops the capabilities of this thread that r does not keep. With
// no_new_privs, execve(2) does not return them even to uid 0.
func (r Rights) dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot drop the ambient capabilities: %w", err)
	}
	have, err := capabilities()
	if err != nil {
		return err
	}
	kept := r.kept()
	for i := range have {
		have[i].Permitted &= kept[i]
		have[i].Effective = have[i].Permitted
		have[i].Inheritable = 0
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &have[0]); err != nil {
		return fmt.Errorf("cannot drop the capabilities: %w", err)
	}
	return nil
}

// kept returns the kept capabilities as bits.
func (r Rights) kept() (bits [2]uint32) {
	for _, c := range r.Capabilities {
		bits[c/32] |= 1 << (c % 32)
	}
	return bits
}

func capabilities() (have [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &have[0]); err != nil {
		return have, fmt.Errorf("cannot read the capabilities: %w", err)
	}
	return have, nil
}
