package main

import (
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocateRequest is the ioctl VRAM_ALLOCATE of the stand-in driver, see ../vm/kmod/amdgpu_vram.c.
const allocateRequest = 0x4008649f

// allocate allocates memory of a GPU by its node. It frees the memory at its end: immediately without a ready
// file, else after a signal.
func allocate(node, gibibytes, ready string) error {
	n, err := strconv.ParseUint(gibibytes, 10, 32)
	if err != nil {
		return err
	}
	fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open %s: %w", node, err)
	}
	bytes := n << 30
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), allocateRequest, uintptr(unsafe.Pointer(&bytes))); errno != 0 {
		return fmt.Errorf("cannot allocate %d GiB of %s: %w", n, node, errno)
	}
	if ready == "" {
		return nil
	}
	if err := os.WriteFile(ready, []byte("allocated\n"), 0o644); err != nil {
		return err
	}
	return pause()
}
