package amdgpu

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

func TestErrorMeanings(t *testing.T) {
	set := func(err error) error {
		return &SetError{GPU: "0000:0c:00.0", File: "/sys/f", From: "SPX", To: "CPX", Now: "SPX", Err: &fs.PathError{Op: "write", Path: "/sys/f", Err: err}}
	}
	for _, test := range []struct {
		err       error
		text      string
		transient bool
		hint      bool
	}{
		{set(unix.EBUSY), "cannot set CPX on 0000:0c:00.0 (SPX): a process has the GPU open, or had it open a moment ago: write /sys/f: device or resource busy", true, true},
		{set(unix.EPERM), "cannot set CPX on 0000:0c:00.0 (SPX): the GPU is in reset: write /sys/f: operation not permitted", true, true},
		{set(unix.EACCES), "cannot set CPX on 0000:0c:00.0 (SPX): write /sys/f: permission denied", false, true},
		{set(unix.EINVAL), "cannot set CPX on 0000:0c:00.0 (SPX): the driver does not accept this mode together with the GPU's memory mode: write /sys/f: invalid argument", false, true},
		{&SetError{GPU: "0000:0c:00.0", From: "SPX", To: "CPX", Now: "CPX", Err: unix.EIO},
			"cannot set CPX on 0000:0c:00.0 (SPX): the driver could not bring compute up again after the switch: input/output error; it now reads CPX", false, true},
		{&SetError{GPU: "0000:0c:00.0", File: "/sys/" + memoryFile, From: "NPS1", To: "NPS4", Now: "NPS1", Err: unix.EIO},
			"cannot set NPS4 on 0000:0c:00.0 (NPS1): the driver could not record the request for a memory mode: input/output error", false, true},
		{&SetError{GPU: "0000:0c:00.0", File: "/sys/" + memoryFile, From: "NPS1", To: "NPS4", Now: "NPS1", Err: unix.EINVAL},
			"cannot set NPS4 on 0000:0c:00.0 (NPS1): the GPU, or another GPU of its hive, does not support this memory mode: invalid argument", false, true},
		{&SetError{GPU: "0000:0c:00.0", To: "CPX", Err: unix.ENODEV}, "cannot set CPX on 0000:0c:00.0: the GPU is gone: no such device", false, true},
		{&SetError{GPU: "0000:0c:00.0", To: "CPX", Err: context.DeadlineExceeded},
			"cannot set CPX on 0000:0c:00.0: the driver did not return in time: context deadline exceeded", true, true},
		{&MismatchError{"0000:0c:00.0", "/sys/x/current_compute_partition", "CPX", "SPX"},
			"set CPX on 0000:0c:00.0, but current_compute_partition reads SPX", false, true},
		{&ModeError{"/sys/f", "UNKNOWN"}, `/sys/f holds "UNKNOWN", not a mode dcm knows`, true, false},
		{&ModeError{"/sys/f", "HPX"}, `/sys/f holds "HPX", not a mode dcm knows`, false, false},
		{errors.Join(unix.EBUSY, unix.EPERM), "device or resource busy\noperation not permitted", true, true},
		{errors.Join(set(unix.EBUSY), unix.EINVAL), set(unix.EBUSY).Error() + "\ninvalid argument", false, true},
		{context.Canceled, "context canceled", false, false},
		{errors.New("other"), "other", false, false},
	} {
		if got := test.err.Error(); got != test.text {
			t.Errorf("text %q, want %q", got, test.text)
		}
		if got := IsTransient(test.err); got != test.transient {
			t.Errorf("%v: transient %v, want %v", test.err, got, test.transient)
		}
		if got := Hint(test.err); (got != "") != test.hint {
			t.Errorf("%v: hint %q, want one: %v", test.err, got, test.hint)
		}
	}
	if IsTransient(nil) {
		t.Error("no error is transient")
	}
}
