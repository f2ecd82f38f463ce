package amdgpu

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
)

// errReadOnly is the error of a mode file without write permission.
var errReadOnly = errors.New("the driver offers the mode for reading only")

// errorMeaning is the meaning of a driver error. The sources are
// amdgpu_gfx_set_compute_partition, amdgpu_xcp_switch_partition_mode,
// kgd2kfd_check_and_lock_kfd and current_memory_partition_store.
type errorMeaning struct {
	err       error
	text      string // "" if err is clear
	hint      string
	transient bool // a retry may succeed
}

func errorMeanings() []errorMeaning {
	return []errorMeaning{
		{unix.EBUSY, "a process has the GPU open, or had it a moment ago",
			"End the processes that `dcm holders` names, or list their units as clients.", true},
		{unix.EPERM, "the GPU is in reset",
			"Wait until the reset is over; the kernel log tells what caused it.", true},
		{errKilled, "", "", true},
		{unix.EAGAIN, "", "", true},
		{unix.EINTR, "", "", true},
		{unix.ETIME, "the GPU's firmware does not answer", "See the kernel log.", true},
		{unix.ETIMEDOUT, "the GPU's firmware does not answer", "See the kernel log.", true},
		{context.DeadlineExceeded, "the driver has not answered in time",
			"See the kernel log: a driver that hangs needs a reboot.", true},
		{unix.EINVAL, "the driver does not accept this mode together with the GPU's memory mode",
			"Choose a profile with another mode, one that `dcm gpus` lists for the GPU in the memory mode that it has then.", false},
		{unix.EIO, "the driver could not bring compute up again after the switch",
			"See the kernel log; reload the driver or reboot.", false},
		{unix.ENODEV, "the GPU is gone", hintGPULost, false},
		{unix.ENXIO, "the GPU is gone", hintGPULost, false},
		{fs.ErrNotExist, "the GPU is gone, or the driver with it", hintGPULost, false},
		{unix.EOPNOTSUPP, "the driver does not offer it on this GPU",
			"Choose a profile without it; an APU has one memory mode.", false},
		{errReadOnly, "", "Set the modes of a virtual function on its host.", false},
		{unix.EACCES, "", "Run it as root.", false},
		{unix.EROFS, "sysfs is read-only for this process",
			"Run it as dcm-apply.service does: as root, with a writable /sys.", false},
	}
}

const hintGPULost = "See the kernel log: the GPU may have left the bus, and then needs a reboot."

// memoryErrorMeanings returns errors with another meaning for a memory mode, which is only a
// request.
func memoryErrorMeanings() []errorMeaning {
	return []errorMeaning{
		{unix.EINVAL, "the driver does not know this memory mode for the GPU, or another GPU of its hive cannot have it",
			"Choose a profile whose memory mode `dcm gpus` lists for every GPU of the hive.", false},
		{unix.EIO, "the driver could not take the request for a memory mode",
			"See the kernel log. Nothing was switched; a request that is pending is told by `dcm status`.", false},
	}
}

// meaning returns the meaning of err, or the zero value.
func meaning(err error) errorMeaning {
	all := errorMeanings()
	if set, ok := errors.AsType[*SetError](err); ok && filepath.Base(set.File) == memoryFile {
		all = append(memoryErrorMeanings(), all...)
	}
	for _, f := range all {
		if errors.Is(err, f.err) {
			return f
		}
	}
	return errorMeaning{}
}

// IsTransient reports whether a retry may succeed. Joined errors are transient if each of
// them is.
func IsTransient(err error) bool {
	return gpu.ClassifyTransient(err, func(err error, last bool) (passing, known bool) {
		if mode, ok := err.(*ModeError); ok {
			return mode.transient(), true
		}
		return last && meaning(err).transient, last
	})
}

// Hint returns one sentence that says what the administrator can do about err, or "".
func Hint(err error) string {
	if c, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		if s := c.Hint(); s != "" {
			return s
		}
	}
	return meaning(err).hint
}
