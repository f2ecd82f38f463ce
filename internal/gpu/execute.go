package gpu

import (
	"context"
	"errors"

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
