package gpu

import (
	"context"

	"dcm/internal/gpu/partition"
)

// Observation is a GPU as somebody else than its [Vendor] shows it.
type Observation struct {
	GPU   partition.Address
	Shape partition.Shape // zero where that is not told
	Parts int             // how many partitions there are; -1 where that is not told
}

// CrossChecker is a [Vendor] that can have somebody else look at its GPUs: what dcm has read
// back itself is then held against what it had no part in.
type CrossChecker interface {
	// CrossChecker names who looks, and returns what is seen. An error tells why nothing is.
	CrossCheck(ctx context.Context, devices []*Device) (who string, seen []Observation, err error)
}

// CrossCheck is what a witness has seen, or why nothing.
type CrossCheck struct {
	Source       string
	Observations []Observation
	Err          error
}

// Testimonies has every vendor's witness look at the devices.
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
