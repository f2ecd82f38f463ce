package gpu

import (
	"context"
	"errors"
)

// vendorError is an error that a vendor can explain.
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

// Transient reports whether trying again may help. Of several errors joined each has
// to be such.
func IsTransient(err error) bool {
	return ClassifyTransient(err, func(err error, last bool) (passing, known bool) {
		if of, ok := err.(*vendorError); ok {
			_, passing = of.vendor.Explain(of.error)
			return passing, true
		}
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrPartial) || errors.Is(err, errNoMoreGPUs), last
	})
}

// IsTransient walks an error for those who know what errors mean: judge is asked of each
// that wraps another one, and of the last, which it has to know. Of several errors
// joined each has to be passing.
func ClassifyTransient(err error, judge func(err error, last bool) (passing, known bool)) bool {
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
	passing, known := judge(err, inner == nil)
	if known || inner == nil {
		return passing
	}
	return ClassifyTransient(inner, judge)
}

// Cure is one sentence for an operator on what to do about err, "" if there is
// nothing to say.
func Hint(err error) string {
	if known, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return known.Hint()
	}
	if of, ok := errors.AsType[*vendorError](err); ok {
		cure, _ := of.vendor.Explain(of.error)
		return cure
	}
	switch {
	case errors.Is(err, ErrNoGPU):
		return "See whether lspci shows the GPU; it may be given to a virtual machine."
	case errors.Is(err, context.DeadlineExceeded):
		return "See the kernel log: a driver that hangs needs a reboot."
	}
	return ""
}

// InUse reports whether err is of a driver that could not be unloaded, because a
// process or the kernel itself uses it.
func InUse(err error) bool {
	kept, ok := errors.AsType[interface {
		error
		DriverInUse() bool
	}](err)
	return ok && kept.DriverInUse()
}

// NeedsReboot reports whether err is one that a reboot helps against, and nothing less.
func NeedsReboot(err error) bool {
	e, ok := errors.AsType[interface {
		error
		NeedsReboot() bool
	}](err)
	return ok && e.NeedsReboot()
}
