package gpu

import (
	"context"

	"dcm/internal/gpu/partition"
)

// Use is how much of one partition is in use, as far as its driver tells. It is looked
// at when somebody asks, and by nobody at rest.
type PartitionUsage struct {
	GPU   partition.Address
	Index int // of the partition in the GPU

	Bytes         uint64 // of memory
	NoBytesReason string // why that is not known; "" if it is

	Busy         float64 // percent of the compute units' time, at this moment
	NoBusyReason string  // why that is not known; "" if it is
	Counter      BusyCounter

	Processes []Process // that have memory there, as far as the driver lists them
}

// BusyCounter is what a driver has added up since it was loaded: two looks tell how busy the
// partition was in between. It is zero where the driver adds nothing up.
type BusyCounter struct {
	Sum    uint64 // of the percentages
	Cycles uint64 // how many were added up
}

// Process is one of those that use a partition.
type Process struct {
	PID   int
	Bytes uint64 // of the partition's memory
}

// Measurer is a [Vendor] that can tell how much of its partitions is in use.
type Measurer interface {
	// Measure looks at each partition of the devices. What cannot be told of one is told
	// there, and why; its own error is one that no partition alone is to blame for.
	// The devices have what [Vendor.Detail] adds.
	Measure(ctx context.Context, devices []*Device) ([]PartitionUsage, error)
}

// unmeasured is why nothing is known of the partitions of a vendor that is no Measurer.
const reasonNotMeasured = "dcm does not know how its driver tells"

// Measure looks how much of each partition of the devices is in use. There is a Use for
// every partition, whatever the error.
func (n *Node) Measure(ctx context.Context, devices []Device) ([]PartitionUsage, error) {
	var all []PartitionUsage
	err := n.each(devices, func(v Vendor, own []*Device) error {
		m, ok := v.(Measurer)
		if !ok {
			all = append(all, unknownUsage(own, reasonNotMeasured)...)
			return nil
		}
		uses, err := m.Measure(ctx, own)
		if err != nil {
			uses = unknownUsage(own, err.Error())
		}
		all = append(all, uses...)
		return err
	})
	return all, err
}

func unknownUsage(devices []*Device, why string) []PartitionUsage {
	var out []PartitionUsage
	for _, d := range devices {
		for _, p := range d.Parts {
			out = append(out, PartitionUsage{GPU: d.Address, Index: p.Index, NoBytesReason: why, NoBusyReason: why})
		}
	}
	return out
}
