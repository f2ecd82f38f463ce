package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_X86_64

// ownRefused returns calls that only this architecture has, mostly older variants of others.
func ownRefused() []uint32 {
	return []uint32{
		unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_USELIB, unix.SYS_CREATE_MODULE, unix.SYS_NFSSERVCTL,
	}
}

// nodes returns the older variants of the calls that create nodes and change their owner.
func nodes() []uint32 { return []uint32{unix.SYS_MKNOD, unix.SYS_CHOWN, unix.SYS_LCHOWN} }

// entries returns the older variants of the calls of entriesAt.
func entries() []uint32 {
	return []uint32{
		unix.SYS_CHMOD, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_SYMLINK, unix.SYS_LINK,
		unix.SYS_RENAME, unix.SYS_RENAMEAT,
	}
}

func madeBy() []making {
	return []making{{unix.SYS_MKNODAT, offsetThird}, {unix.SYS_MKNOD, offsetSecond}}
}

// foreignNumbers refuses the x32 ABI, which has other calls with the same numbers.
func foreignNumbers() []unix.SockFilter {
	const x32 = 0x40000000
	return []unix.SockFilter{
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: x32},
		result(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
	}
}
