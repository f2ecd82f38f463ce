package confine

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

// Again runs the program once more in its own place, with other arguments, no
// environment and fewer rights: no capability, none to be had by a set-user-ID
// program or a file's capabilities, and, if root is to look only, as a user who owns
// nothing and has the groups of these devices. It returns only with an error.
//
// What is taken is taken from one thread, since a process without cgo that loads a
// library by itself has no way to ask all of its threads. The kernel makes that one
// the whole process when it runs a program.
func Again(args []string, look bool, devices ...string) error {
	runtime.LockOSThread()
	parent := os.Getppid()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot give up new privileges: %w", err)
	}
	// Capabilities that a program could get back; only CAP_SETPCAP may.
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			break
		}
	}
	if look && os.Geteuid() == 0 {
		if err := become(nobody, groupsOf(devices)); err != nil {
			return err
		}
	}
	if err := renounce(); err != nil {
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

// renounce drops every capability of this thread. With no_new_privs not even uid 0
// gets them back from running a program.
func renounce() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot drop the ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("cannot drop the capabilities: %w", err)
	}
	return nil
}
