package gpu

import (
	"context"
	"errors"

	"dcm/internal/gpu/partition"
)

// CountedPartition is a partition whose counters are read.
type CountedPartition struct {
	Vendor partition.Vendor
	GPU    partition.Address
	Index  int    // of the partition in the GPU, from 0
	Of     int    // number of partitions of the GPU
	Render string // "/dev/dri/renderD131"
}

// PartitionCounters are counters of the driver since its load. The difference of two readings gives the
// use between them.
type PartitionCounters struct {
	GPU   partition.Address
	Index int

	Busy   BusyCounter // zero if the driver has none
	Energy uint64      // of the whole GPU, in microjoules; 0 if the driver has none
}

// Counters reads the counters of partitions. It takes no scan of the bus. Partitions of a vendor without
// counters are omitted.
func (n *Node) Counters(ctx context.Context, parts []CountedPartition) ([]PartitionCounters, error) {
	var all []PartitionCounters
	var errs []error
	for _, v := range n.bus.vendors {
		var own []CountedPartition
		for _, p := range parts {
			if p.Vendor == v.Vendor {
				own = append(own, p)
			}
		}
		if v.Counters == nil || len(own) == 0 {
			continue
		}
		counted, err := v.Counters(ctx, own)
		all, errs = append(all, counted...), append(errs, withVendor(v, err))
	}
	return all, errors.Join(errs...)
}
