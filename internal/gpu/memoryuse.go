package gpu

import (
	"context"
	"errors"

	"dcm/internal/gpu/partition"
)

// MemoryUse returns the memory use of GPUs. It takes no scan of the bus. GPUs are omitted whose driver does
// not report it, or does not report the memory of all processes.
func (n *Node) MemoryUse(ctx context.Context, gpus []partition.GPU) ([]MemoryUse, error) {
	var all []MemoryUse
	var errs []error
	for _, v := range n.bus.vendors {
		var own []partition.Address
		for _, g := range gpus {
			if g.Vendor == v.Vendor {
				own = append(own, g.Address)
			}
		}
		if v.MemoryUse == nil || len(own) == 0 {
			continue
		}
		uses, err := v.MemoryUse(ctx, own)
		all, errs = append(all, uses...), append(errs, withVendor(v, err))
	}
	return all, errors.Join(errs...)
}
