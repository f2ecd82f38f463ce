package gpu

import (
	"context"

	"dcm/internal/gpu/partition"
)

// Observation is the state of a GPU as a source independent of dcm's own reading shows it.
type Observation struct {
	GPU   partition.Address
	Shape partition.Shape // zero if unknown
	Parts int             // number of partitions; -1 if unknown
}

// CrossChecker is a [Vendor] with an independent source. The self-test compares it with what
// dcm reads itself.
type CrossChecker interface {
	// CrossCheck returns the name of the source and its observations, or the error why there
	// are none.
	CrossCheck(ctx context.Context, devices []*Device) (who string, seen []Observation, err error)
}

// CrossCheck is the result of one vendor's cross-check.
type CrossCheck struct {
	Source       string
	Observations []Observation
	Err          error
}

// CrossChecks runs the cross-check of every vendor that has one.
func (n *Node) CrossChecks(ctx context.Context, devices []Device) []CrossCheck {
	var all []CrossCheck
	n.each(devices, func(v Vendor, own []*Device) error {
		if w, ok := v.(CrossChecker); ok {
			who, seen, err := w.CrossCheck(ctx, own)
			all = append(all, CrossCheck{who, seen, err})
		}
		return nil
	})
	return all
}
