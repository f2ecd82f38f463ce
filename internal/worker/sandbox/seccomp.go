package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// InstallSeccomp completes the sandbox. The program calls it after [Rights.Reexec] has executed it, and
// before it loads a library. It checks that the privileges are dropped, prevents other processes of the
// same user from tracing this one, and installs the filter of system calls.
func (r Rights) InstallSeccomp() error {
	if err := r.confirm(); err != nil {
		return err
	}
	return install(r.filter(ownPID(), refuse))
}

func ownPID() uint32 { return uint32(os.Getpid()) }

// confirm checks that the privileges are dropped, and makes the process undumpable.
func (r Rights) confirm() error {
	have, err := capabilities()
	if err != nil {
		return err
	}
	for i, kept := range r.kept() {
		if (have[i].Permitted|have[i].Effective|have[i].Inheritable)&^kept != 0 {
			return errors.New("the process still has capabilities")
		}
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || n != 1 {
		return errors.New("no_new_privs is not set")
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot make the process undumpable: %w", err)
	}
	return nil
}

// install sets the filter for all threads. On a kernel without seccomp it does nothing.
func install(code []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	odd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	switch {
	case errno != 0 && errno != unix.ENOSYS:
		return fmt.Errorf("cannot set the filter of system calls: %w", errno)
	case errno == 0 && odd != 0:
		return fmt.Errorf("cannot set the filter of system calls for thread %d", odd)
	}
	return nil
}
