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

func wrap(v Vendor, err error) error {
	if err == nil {
		return nil
	}
	return &vendorError{err, v}
}

// Transient reports whether trying again may help. Of several errors joined each has
// to be such.
func Transient(err error) bool {
	if err == nil {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !Transient(e) {
				return false
			}
		}
		return true
	}
	if of, ok := err.(*vendorError); ok {
		_, transient := of.vendor.Explain(of.error)
		return transient
	}
	if inner := errors.Unwrap(err); inner != nil {
		return Transient(inner)
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrPartial) || errors.Is(err, errSettled)
}

// Cure is one sentence for an operator on what to do about err, "" if there is
// nothing to say.
func Cure(err error) string {
	if known, ok := errors.AsType[interface {
		error
		Cure() string
	}](err); ok {
		return known.Cure()
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

// Kept reports whether err is of a driver that could not be unloaded, because a
// process or the kernel itself uses it.
func Kept(err error) bool {
	kept, ok := errors.AsType[interface {
		error
		Kept() bool
	}](err)
	return ok && kept.Kept()
}
