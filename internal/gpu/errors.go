package gpu

import (
	"context"
	"errors"

	"dcm/internal/gpu/partition"
)

// vendorError is an error that the vendor can explain.
type vendorError struct {
	error
	vendor Vendor
}

func (e *vendorError) Unwrap() error { return e.error }

func withVendor(v Vendor, err error) error {
	if err == nil {
		return nil
	}
	return &vendorError{err, v}
}

// Gone returns the GPU that an error reports as gone from the bus or from its driver, "" if it reports none.
func Gone(err error) partition.Address {
	if e, ok := errors.AsType[interface {
		error
		Gone() partition.Address
	}](err); ok {
		return e.Gone()
	}
	return ""
}

// IsTransient reports whether a retry may succeed. Joined errors are transient if each of
// them is.
func IsTransient(err error) bool {
	return ClassifyTransient(err, func(err error, last bool) (transient, known bool) {
		if of, ok := err.(*vendorError); ok {
			_, transient = of.vendor.Explain(of.error)
			return transient, true
		}
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrPartial) || errors.Is(err, errNoMoreGPUs), last
	})
}

// ClassifyTransient walks the chain of wrapped errors and calls judge for each of them until
// known is true. For the last error of the chain the result counts even if known is false.
// Joined errors are transient if each of them is.
func ClassifyTransient(err error, judge func(err error, last bool) (transient, known bool)) bool {
	if err == nil {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !ClassifyTransient(e, judge) {
				return false
			}
		}
		return true
	}
	inner := errors.Unwrap(err)
	transient, known := judge(err, inner == nil)
	if known || inner == nil {
		return transient
	}
	return ClassifyTransient(inner, judge)
}

// Hint returns one sentence that says what the administrator can do about err, or "".
func Hint(err error) string {
	if known, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return known.Hint()
	}
	if of, ok := errors.AsType[*vendorError](err); ok {
		hint, _ := of.vendor.Explain(of.error)
		return hint
	}
	switch {
	case errors.Is(err, ErrNoGPU):
		return "see whether lspci shows the GPU; it may be given to a virtual machine"
	case errors.Is(err, context.DeadlineExceeded):
		return "see the kernel log; if the driver hangs, reboot"
	}
	return ""
}

// reports calls is with the error of that type that err wraps; false if there is none.
func reports[E error](err error, is func(E) bool) bool {
	e, ok := errors.AsType[E](err)
	return ok && is(e)
}

// InUse reports whether err is of a driver that could not be unloaded because a process or
// the kernel uses it.
func InUse(err error) bool {
	type reporter interface {
		error
		DriverInUse() bool
	}
	return reports(err, reporter.DriverInUse)
}

// HeldInKernel reports whether err is of a GPU that a kernel module holds, which the error
// names.
func HeldInKernel(err error) bool {
	type reporter interface {
		error
		HeldInKernel() bool
	}
	return reports(err, reporter.HeldInKernel)
}

// BusyNode reports whether err is of a driver that refuses a change of one GPU while a process
// uses any of its GPUs ([BusyCheckNode]).
func BusyNode(err error) bool {
	type reporter interface {
		error
		BusyNode() bool
	}
	return reports(err, reporter.BusyNode)
}

// NoRoom returns the GPUs of the joined errors of drivers that have no room for a new MIG instance,
// although the tables of placements show room.
func NoRoom(err error) []partition.Address {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []partition.Address
		for _, e := range joined.Unwrap() {
			out = append(out, NoRoom(e)...)
		}
		return out
	}
	if of, ok := err.(interface{ NoRoomOn() partition.Address }); ok && of.NoRoomOn() != "" {
		return []partition.Address{of.NoRoomOn()}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return NoRoom(inner)
	}
	return nil
}

// Occupied reports whether err is of a new MIG instance whose slots another instance has, so that nothing
// was changed.
func Occupied(err error) bool {
	type reporter interface {
		error
		Occupied() bool
	}
	return reports(err, reporter.Occupied)
}

// NeedsReboot reports whether only a reboot resolves err.
func NeedsReboot(err error) bool {
	type reporter interface {
		error
		NeedsReboot() bool
	}
	return reports(err, reporter.NeedsReboot)
}
