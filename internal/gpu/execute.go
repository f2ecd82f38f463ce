package gpu

import (
	"context"
	"errors"
	"slices"

	"dcm/internal/gpu/partition"
)

// Execute runs steps that may run concurrently, each by its vendor. It returns their errors
// joined in the order of the steps. After a driver reload the GPUs may still be coming up;
// see [Node.WaitAfterLoad].
func (n *Node) Execute(ctx context.Context, steps []partition.Step, tell StepFunc) error {
	var errs []error
	for len(steps) > 0 {
		vendor, count := steps[0].Kind.Vendor(), 1
		for count < len(steps) && steps[count].Kind.Vendor() == vendor {
			count++
		}
		errs = append(errs, n.executeBy(ctx, n.vendor(vendor), steps[:count], tell))
		steps = steps[count:]
	}
	return errors.Join(errs...)
}

func (n *Node) executeBy(ctx context.Context, v Vendor, steps []partition.Step, tell StepFunc) error {
	if v == nil {
		return &UnknownStepError{steps[0]}
	}
	return withVendor(v, v.Execute(ctx, steps, tell))
}

// PendingWrite is a mode that was written to a driver which has not returned.
type PendingWrite struct {
	GPU  partition.Address
	Mode string
}

// PendingWrites lists the writes that their callers have given up and from which a driver
// has not returned.
func (n *Node) PendingWrites() []PendingWrite {
	var all []PendingWrite
	for _, v := range n.vendors {
		if w, ok := v.(PendingWriter); ok {
			all = append(all, w.PendingWrites()...)
		}
	}
	return all
}

// UnknownStepError is a step of a vendor that the node does not have.
type UnknownStepError struct{ Step partition.Step }

func (e *UnknownStepError) Error() string {
	return "cannot " + e.Step.String() + ": no vendor knows this step"
}

// Loaded reports whether the drivers of the GPUs on the bus are loaded. Only drivers that a
// step can unload count.
func (n *Node) Loaded() bool {
	if len(unloaded(n.vendors)) == 0 {
		return true // the bus need not be read
	}
	present, err := n.present()
	if err != nil {
		present = n.vendors
	}
	return len(unloaded(present)) == 0
}

// Load loads the drivers that are not loaded, for example after a reload that was killed.
func (n *Node) Load(ctx context.Context) error {
	present, err := n.present()
	if err != nil {
		return err
	}
	for _, v := range unloaded(present) {
		if err := v.(DriverLoader).Load(ctx); err != nil {
			return withVendor(v, err)
		}
	}
	return nil
}

// unloaded returns the vendors whose driver is not loaded.
func unloaded(vendors []Vendor) []Vendor {
	return slices.DeleteFunc(slices.Clone(vendors), func(v Vendor) bool {
		d, ok := v.(DriverLoader)
		return !ok || d.Loaded()
	})
}
