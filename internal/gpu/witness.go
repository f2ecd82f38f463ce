package gpu

import (
	"context"

	"dcm/internal/gpu/partition"
)

// Sighting is a GPU as somebody else than its [Vendor] shows it.
type Sighting struct {
	GPU   partition.Address
	Shape partition.Shape // zero where that is not told
	Parts int             // how many partitions there are; -1 where that is not told
}

// Witness is a [Vendor] that can have somebody else look at its GPUs: what dcm has read
// back itself is then held against what it had no part in.
type Witness interface {
	// Witness names who looks, and returns what is seen. An error tells why nothing is.
	Witness(ctx context.Context, devices []*Device) (who string, seen []Sighting, err error)
}

// Testimony is what a witness has seen, or why nothing.
type Testimony struct {
	Who  string
	Seen []Sighting
	Err  error
}

// Testimonies has every vendor's witness look at the devices.
func (n *Node) Testimonies(ctx context.Context, devices []Device) []Testimony {
	var all []Testimony
	n.each(devices, func(v Vendor, own []*Device) error {
		if w, ok := v.(Witness); ok {
			who, seen, err := w.Witness(ctx, own)
			all = append(all, Testimony{who, seen, err})
		}
		return nil
	})
	return all
}
