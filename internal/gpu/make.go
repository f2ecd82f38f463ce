package gpu

import (
	"context"
	"errors"
	"slices"

	"dcm/internal/gpu/partition"
)

// Make carries out steps that may be made at once, each by its vendor, and returns
// their errors joined in the order of the steps. A driver that a step has loaded may
// still bring its GPUs up: see [Node.Settled].
func (n *Node) Make(ctx context.Context, steps []partition.Step, tell Tell) error {
	var errs []error
	for len(steps) > 0 {
		vendor, count := steps[0].Kind.Vendor(), 1
		for count < len(steps) && steps[count].Kind.Vendor() == vendor {
			count++
		}
		errs = append(errs, n.through(ctx, n.vendor(vendor), steps[:count], tell))
		steps = steps[count:]
	}
	return errors.Join(errs...)
}

func (n *Node) through(ctx context.Context, v Vendor, steps []partition.Step, tell Tell) error {
	if v == nil {
		return &StepError{steps[0]}
	}
	return wrap(v, v.Make(ctx, steps, tell))
}

// Write is a mode that was handed to a driver.
type Write struct {
	GPU  partition.Address
	Mode string
}

// UnderWay lists the writes that their callers have given up and that a driver still
// has, of the vendors that can leave any.
func (n *Node) UnderWay() []Write {
	var all []Write
	for _, v := range n.vendors {
		if leaves, ok := v.(interface{ UnderWay() []Write }); ok {
			all = append(all, leaves.UnderWay()...)
		}
	}
	return all
}

// StepError is a step that nobody here can make.
type StepError struct{ Step partition.Step }

func (e *StepError) Error() string { return "cannot " + e.Step.String() + ": it is not known how" }

// Loaded reports whether the drivers of the GPUs on the bus are loaded, as far as a
// step may have unloaded them.
func (n *Node) Loaded() bool {
	if !slices.ContainsFunc(n.vendors, func(v Vendor) bool { return !v.Loaded() }) {
		return true // whatever is on the bus
	}
	there, err := n.present()
	if err != nil {
		there = n.vendors
	}
	for _, v := range there {
		if !v.Loaded() {
			return false
		}
	}
	return true
}

// Load loads the drivers that are not loaded, as after a reload that was killed
// half-way.
func (n *Node) Load(ctx context.Context) error {
	there, err := n.present()
	if err != nil {
		return err
	}
	for _, v := range there {
		if v.Loaded() {
			continue
		}
		if err := v.Load(ctx); err != nil {
			return wrap(v, err)
		}
	}
	return nil
}
