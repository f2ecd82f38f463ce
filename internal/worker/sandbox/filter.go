package sandbox

import (
	"golang.org/x/sys/unix"
)

// refused are the system calls that no question about a GPU needs, and that are worth
// something to who has got into the process: to reach other processes, the network, the kernel's keys, modules, mounts, clocks and namespaces,
// and the parts of the kernel that most ways out of a sandbox went through. They fail
// with EPERM: libraries cope with that better than with a signal, and say so.
//
// It is a list of what is refused. One of what is allowed would have to know what the
// next version of somebody else's library calls. Programs that may be run have no more
// rights than the library.
func (r Rights) refused() []uint32 {
	out := append(ownRefused(), always()...)
	for _, group := range []struct {
		left  bool
		calls []uint32
	}{
		{r.Programs, []uint32{unix.SYS_EXECVE, unix.SYS_EXECVEAT}},
		{r.Sockets, []uint32{unix.SYS_SOCKET, unix.SYS_CONNECT}},
		{r.Nodes, append(nodes(), unix.SYS_MKNODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT)},
		{r.Nodes || r.Files, append(entries(), entriesAt()...)},
	} {
		if !group.left {
			out = append(out, group.calls...)
		}
	}
	return out
}

// entriesAt are the calls that change a directory's entries or a file's mode, but for the
// creation of a regular file.
func entriesAt() []uint32 {
	return []uint32{
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT,
		unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_RENAMEAT2,
	}
}

// always are those that nobody is left.
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

// namespaces are the flags of clone(2) with which a process makes itself root of a
// namespace.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP

// The kernel's struct seccomp_data, for a little-endian machine.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetFirst  = 16 // the lower half of the first argument
	offsetSecond = 24
	offsetThird  = 32
)

// making is a call that makes a node, and the argument that says of which kind.
type making struct{ number, mode uint32 }

// filter is a program of seccomp(2). pid is the process's own: it may send signals to
// its threads, read its own memory and set its own limits.
func (r Rights) filter(pid uint32) []unix.SockFilter {
	const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
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
		// Those of disks are none of a GPU's.
		for _, call := range madeBy() {
			code = append(code, skipUnless(call.number, 5), load(call.mode), keep(unix.S_IFMT), skipUnless(unix.S_IFBLK, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
		}
	}
	// Its flags are behind a pointer; without it libraries take clone.
	code = append(code, skipUnless(unix.SYS_CLONE3, 1), result(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	code = append(code, skipUnless(unix.SYS_CLONE, 4), load(offsetFirst), skipUnlessAny(namespaces, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
	for _, number := range []uint32{unix.SYS_TGKILL, unix.SYS_PROCESS_VM_READV} {
		code = append(code, skipUnless(number, 4), load(offsetFirst), skipIf(pid, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
	}
	code = append(code, skipUnless(unix.SYS_PRLIMIT64, 5), load(offsetFirst), skipIf(0, 2), skipIf(pid, 1), result(refuse), result(unix.SECCOMP_RET_ALLOW))
	// TIOCSTI and TIOCLINUX put words into the mouth of who sits at the terminal.
	code = append(code, skipUnless(unix.SYS_IOCTL, 4), load(offsetSecond), skipIf(unix.TIOCSTI, 1), skipUnless(unix.TIOCLINUX, 1), result(refuse))
	return append(code, result(unix.SECCOMP_RET_ALLOW))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// keep leaves of what was loaded these bits.
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
