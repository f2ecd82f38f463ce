package sandbox

import (
	"golang.org/x/sys/unix"
)

// refused returns the system calls that fail with EPERM. Requests about GPUs do not need them. An
// attacker in the process could use them to reach other processes, the network, or the kernel's keys,
// modules, mounts, clocks and namespaces, or to escape from the sandbox. Libraries handle EPERM better
// than a signal.
//
// It is not a list of allowed calls, because the next version of a library may need others. The filter
// also applies to programs that the library runs.
func (r Rights) refused() []uint32 {
	out := append(ownRefused(), always()...)
	for _, group := range []struct {
		keep  bool // the program keeps the right
		calls []uint32
	}{
		{r.Programs, []uint32{unix.SYS_EXECVE, unix.SYS_EXECVEAT}},
		{r.Sockets, []uint32{unix.SYS_SOCKET, unix.SYS_CONNECT}},
		{r.Nodes, append(nodes(), unix.SYS_MKNODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT)},
		{r.Nodes || r.Files, append(entries(), entriesAt()...)},
	} {
		if !group.keep {
			out = append(out, group.calls...)
		}
	}
	return out
}

// entriesAt returns the calls that change directory entries or modes of files, except the
// creation of regular files.
func entriesAt() []uint32 {
	return []uint32{
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT,
		unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_RENAMEAT2,
	}
}

// always returns the calls that are refused with any rights.
func always() []uint32 {
	return []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL,
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
		unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_MOUNT_SETATTR, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_ACCT,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
		unix.SYS_SETGROUPS, unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_CAPSET, unix.SYS_PERSONALITY,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
		unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	}
}

// namespaces are the flags of clone(2) that create namespaces.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP

// The kernel's struct seccomp_data, for a little-endian machine.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetFirst  = 16 // the lower half of the first argument
	offsetSecond = 24
	offsetThird  = 32
)

// making is a call that creates a device node. mode is the offset of the argument with the type of
// the node.
type making struct{ number, mode uint32 }

// refuse is the result for a refused call.
const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

// filter returns a program for seccomp(2) that returns refuse for refused calls. It permits the process
// pid, which is the process itself, to send signals to its threads, to read its own memory and to set
// its own limits.
func (r Rights) filter(pid, refuse uint32) []unix.SockFilter {
	code := []unix.SockFilter{
		load(offsetArch), skipIf(architecture, 1), result(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetNumber),
	}
	code = append(code, foreignNumbers()...)
	for _, number := range r.refused() {
		code = append(code, skipUnless(number, 1), result(refuse))
	}
	if r.Sockets {
		code = append(code, skipUnless(unix.SYS_SOCKET, 4), load(offsetFirst), skipIf(unix.AF_UNIX, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
	}
	if r.Nodes {
		// Refuse block devices, which no GPU has.
		for _, call := range madeBy() {
			code = append(code, skipUnless(call.number, 5), load(call.mode), keep(unix.S_IFMT), skipUnless(unix.S_IFBLK, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
		}
	}
	// A filter cannot read the flags of clone3, which are passed by a pointer. With ENOSYS, libraries use clone.
	code = append(code, skipUnless(unix.SYS_CLONE3, 1), result(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	code = append(code, skipUnless(unix.SYS_CLONE, 4), load(offsetFirst), skipUnlessAny(namespaces, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
	for _, number := range []uint32{unix.SYS_TGKILL, unix.SYS_PROCESS_VM_READV} {
		code = append(code, skipUnless(number, 4), load(offsetFirst), skipIf(pid, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
	}
	code = append(code, skipUnless(unix.SYS_PRLIMIT64, 5), load(offsetFirst), skipIf(0, 2), skipIf(pid, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
	// TIOCSTI and TIOCLINUX can insert input into a terminal.
	code = append(code, skipUnless(unix.SYS_IOCTL, 4), load(offsetSecond), skipIf(unix.TIOCSTI, 1), skipUnless(unix.TIOCLINUX, 1), result(refuse))
	return append(code, result(unix.SECCOMP_RET_ALLOW))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// keep clears all bits of the loaded value except these.
func keep(bits uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: bits}
}

func result(r uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: r}
}

func skipIf(value uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: n, K: value}
}

func skipUnless(value uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: n, K: value}
}

func skipUnlessAny(bits uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: n, K: bits}
}
