package amdgpu

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/modprobe"
)

// errReadOnly is the error of a mode file without write permission.
var errReadOnly = errors.New("the mode is read-only")

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
		{unix.EBUSY, "a process has the GPU open, or had it open a moment ago",
			"end the processes that 'dcm holders' names, or list their units as clients", true},
		{unix.EPERM, "the GPU is in reset",
			"wait until the reset is over; see the kernel log for its cause", true},
		{modprobe.ErrKilled, "", "", true},
		{unix.EAGAIN, "", "", true},
		{unix.EINTR, "", "", true},
		{unix.ETIME, "the GPU's firmware does not answer", "see the kernel log", true},
		{unix.ETIMEDOUT, "the GPU's firmware does not answer", "see the kernel log", true},
		{context.DeadlineExceeded, "the driver did not return in time",
			"see the kernel log; if the driver hangs, reboot", true},
		{unix.EINVAL, "the driver does not accept this mode together with the GPU's memory mode",
			"choose a profile with a compute mode that 'dcm gpus' lists for that memory mode", false},
		{unix.EIO, "the driver could not bring compute up again after the switch",
			"see the kernel log; reload the driver or reboot", false},
		{unix.ENODEV, "the GPU is gone", hintGPULost, false},
		{unix.ENXIO, "the GPU is gone", hintGPULost, false},
		{fs.ErrNotExist, "the GPU or its driver is gone", hintGPULost, false},
		{unix.EOPNOTSUPP, "the driver does not support this on the GPU",
			"choose a profile without a memory mode; an APU has only one", false},
		{errReadOnly, "", "set the modes of a virtual function on its host", false},
		{unix.EACCES, "", "run dcm as root", false},
		{unix.EROFS, "sysfs is read-only for this process",
			"run dcm as root, with a writable /sys", false},
	}
}

// nodeBusyMeaning is the meaning of EBUSY of a driver that checks all GPUs of the node.
func nodeBusyMeaning() errorMeaning {
	return errorMeaning{unix.EBUSY, "the check of this older driver is for the whole node: a process uses one of its GPUs, or used one a moment ago",
		"end the processes that 'dcm holders' names, or list their units as clients", true}
}

const hintGPULost = "see the kernel log; if the GPU has left the bus, reboot"

// memoryErrorMeanings returns errors with another meaning for a memory mode, which is only a
// request.
func memoryErrorMeanings() []errorMeaning {
	return []errorMeaning{
		{unix.EINVAL, "the GPU, or another GPU of its hive, does not support this memory mode",
			"choose a profile whose memory mode 'dcm gpus' lists for every GPU of the hive", false},
		{unix.EIO, "the driver could not record the request for a memory mode",
			"see the kernel log; the mode is unchanged; 'dcm status' shows a pending request", false},
	}
}

// settingErrorMeanings returns errors with another meaning for a setting that is no mode.
func settingErrorMeanings(file string) []errorMeaning {
	if file == isolationFile {
		return []errorMeaning{
			{unix.EINVAL, "the driver does not accept this isolation for each partition", "see the kernel log; leave isolation out of the profile", false},
		}
	}
	return []errorMeaning{
		{unix.EINVAL, "the driver does not know this memory allocation", "see the kernel log; leave memory-allocation out of the profile", false},
	}
}

// meaning returns the meaning of err, or the zero value.
func meaning(err error) errorMeaning {
	all := errorMeanings()
	if set, ok := errors.AsType[*SetError](err); ok {
		switch file := filepath.Base(set.File); file {
		case memoryFile:
			all = append(memoryErrorMeanings(), all...)
		case allocationFile, isolationFile:
			all = append(settingErrorMeanings(file), all...)
		}
	}
	if gpu.BusyNode(err) {
		all = append([]errorMeaning{nodeBusyMeaning()}, all...)
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
