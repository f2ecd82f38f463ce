package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// cleanerFile starts the cleaner shader, which clears the local data shares (LDS) and the general purpose registers
// of one partition. The driver has it if the GPU's firmware supports that.
const cleanerFile = "run_cleaner_shader"

// cleaner cleans partitions. It is a [gpu.Cleaner].
type cleaner struct{ roots gpu.Roots }

// Supports implements [gpu.Cleaner].
func (c cleaner) Supports(a partition.Address) bool {
	_, err := os.Lstat(c.roots.AttributePath(a, cleanerFile))
	return err == nil
}

// Clean implements [gpu.Cleaner]. The driver waits until the shader has run. If that fails because of a reset of
// the GPU, the driver returns no error; whether its memory was cleared then, only hardware can show.
func (c cleaner) Clean(ctx context.Context, a partition.Address, index int) error {
	_, err := sysfs.Within(ctx, func() (struct{}, error) {
		return struct{}{}, sysfs.Write(c.roots.AttributePath(a, cleanerFile), strconv.Itoa(index))
	})
	if err != nil {
		return &CleanError{a, index, err}
	}
	return nil
}

// CleanError is a partition that was not cleaned.
type CleanError struct {
	GPU   partition.Address
	Index int
	Err   error
}

func (e *CleanError) Error() string {
	why := ""
	if m := e.meaning(); m.text != "" {
		why = m.text + ": "
	}
	return fmt.Sprintf("cannot clean partition %d of %s: %s%v", e.Index, e.GPU, why, e.Err)
}

func (e *CleanError) Unwrap() error { return e.Err }

// Hint returns what the administrator can do.
func (e *CleanError) Hint() string { return e.meaning().hint }

// enotsupp is ENOTSUPP of the kernel, which is no error number of user space.
const enotsupp = unix.Errno(524)

// meaning returns the meaning of the error (amdgpu_gfx_set_run_cleaner_shader).
func (e *CleanError) meaning() errorMeaning {
	for _, m := range []errorMeaning{
		{unix.EPERM, "the GPU is in reset or suspended", "the cleaning is repeated; see the kernel log for the cause of the reset", true},
		{unix.EINVAL, "the GPU has no such partition", "see 'dcm gpus'", false},
		{unix.ENOENT, "no compute ring of the partition is ready", "see the kernel log", true},
		{enotsupp, "the driver was loaded without kernel queues", "load amdgpu without user_queue=2", false},
		{unix.ENODEV, "the GPU is gone", hintGPULost, false},
		{context.DeadlineExceeded, "the driver did not return in time", "see the kernel log; if the driver hangs, reboot", true},
	} {
		if errors.Is(e.Err, m.err) {
			return m
		}
	}
	return errorMeaning{}
}
