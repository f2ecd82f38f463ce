package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// ownRefused returns calls that only this architecture has.
func ownRefused() []uint32 { return []uint32{unix.SYS_KEXEC_FILE_LOAD} }

func nodes() []uint32 { return nil }

// entries returns the older variant of a call of entriesAt.
func entries() []uint32 { return []uint32{unix.SYS_RENAMEAT} }

func madeBy() []making { return []making{{unix.SYS_MKNODAT, offsetThird}} }

func foreignNumbers() []unix.SockFilter { return nil }
