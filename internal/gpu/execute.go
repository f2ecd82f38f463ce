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
func (n *Node) Execute(ctx context.Context, steps []partition.Step, onStep StepFunc) error {
	var errs []error
	for len(steps) > 0 {
		id, count := steps[0].Kind.Vendor(), 1
		for count < len(steps) && steps[count].Kind.Vendor() == id {
			count++
		}
		if v, ok := n.bus.vendor(id); ok {
			errs = append(errs, withVendor(v, v.Execute(ctx, steps[:count], onStep)))
		} else {
			errs = append(errs, &UnknownStepError{steps[0]})
		}
		steps = steps[count:]
	}
	return errors.Join(errs...)
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
	for _, v := range n.bus.vendors {
		if v.PendingWrites != nil {
			all = append(all, v.PendingWrites()...)
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
	if len(unloaded(n.bus.vendors)) == 0 {
		return true // the bus need not be read
	}
	present, _ := n.bus.present() // all vendors, if the bus cannot be read
	return len(unloaded(present)) == 0
}

// Load loads the drivers that are not loaded, for example after a reload that was killed.
func (n *Node) Load(ctx context.Context) error {
	present, err := n.bus.present()
	if err != nil {
		return err
	}
	for _, v := range unloaded(present) {
		if err := v.Loader.Load(ctx); err != nil {
			return withVendor(v, err)
		}
	}
	return nil
}

// unloaded returns the vendors whose driver is not loaded.
func unloaded(vendors []Vendor) []Vendor {
	return slices.DeleteFunc(slices.Clone(vendors), func(v Vendor) bool { return v.Loader == nil || v.Loader.Loaded() })
}

// ReadModeTables calls the function of that name of each vendor. It writes to the drivers,
// so that only a run may call it.
func (n *Node) ReadModeTables(ctx context.Context, gpus []partition.GPU) (changed bool, err error) {
	var errs []error
	for _, v := range n.bus.vendors {
		if v.ReadModeTables == nil {
			continue
		}
		stored, err := v.ReadModeTables(ctx, gpus)
		changed, errs = changed || stored, append(errs, err)
	}
	return changed, errors.Join(errs...)
}
