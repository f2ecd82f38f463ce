package gpu

import "dcm/internal/gpu/partition"

// PartitionUsage is how much of one partition is in use, according to its driver. It is only
// measured on request.
type PartitionUsage struct {
	GPU   partition.Address
	Index int // of the partition in the GPU, from 0

	Bytes         uint64 // memory in use
	NoBytesReason string // why Bytes is unknown; "" if it is known

	Busy         float64 // busy time of the compute units in percent, at this moment
	NoBusyReason string  // why Busy is unknown; "" if it is known
	Counter      BusyCounter

	Processes []Process // with memory in the partition, as far as the driver lists them
}

// BusyCounter is a counter of the driver since its load. The difference of two readings
// gives the mean busy time between them. It is zero if the driver has no such counter.
type BusyCounter struct {
	Sum    uint64 // sum of the sampled percentages
	Cycles uint64 // number of samples
}

// Process is a process that uses a partition.
type Process struct {
	PID   int
	Bytes uint64 // memory of the partition
}

// reasonNotMeasured is the reason for a vendor without [Vendor.Measure].
const reasonNotMeasured = "dcm cannot read it from this driver"

func unknownUsage(devices []*Device, why string) []PartitionUsage {
	var out []PartitionUsage
	for _, d := range devices {
		for _, p := range d.Parts {
			out = append(out, PartitionUsage{GPU: d.Address, Index: p.Index, NoBytesReason: why, NoBusyReason: why})
		}
	}
	return out
}
