package nvidia

import (
	"context"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// Reasons why a figure is unknown.
const (
	reasonNotReported = "the driver does not report it"
	reasonNoLibrary   = "only the driver's library reports it, which is not used here"
)

// measure is the Measure of [gpu.Vendor]. It reads the usage of all partitions in one request.
func (c *client) measure(ctx context.Context, devices []*gpu.Device) ([]gpu.PartitionUsage, error) {
	request := nvml.Request{Do: nvml.Look, Usage: true}
	for _, d := range devices {
		if len(d.Parts) > 0 {
			request.GPUs = append(request.GPUs, d.Address)
		}
	}
	if len(request.GPUs) == 0 {
		return nil, nil
	}
	reply, err := c.call(ctx, request)
	if err != nil {
		return nil, err
	}
	told := make(map[partition.Address]nvml.GPU)
	for _, g := range reply.GPUs {
		told[g.Address] = g
	}
	var uses []gpu.PartitionUsage
	for _, d := range devices {
		for _, p := range d.Parts {
			uses = append(uses, use(told[d.Address], d.Address, p))
		}
	}
	return uses, nil
}

// use returns the usage of one partition, which it finds by UUID.
func use(g nvml.GPU, a partition.Address, p gpu.Part) gpu.PartitionUsage {
	u := gpu.PartitionUsage{GPU: a, Index: p.Index, NoBytesReason: reasonNotReported, NoBusyReason: reasonNotReported}
	if g.Error != nil {
		u.NoBytesReason, u.NoBusyReason = g.Error.Text, g.Error.Text
		return u
	}
	const whole = -1 // instead of an instance id: the GPU itself
	figures, gi, ci := g.Usage, whole, whole
	if p.ID != g.UUID {
		figures = nil
		for _, d := range g.Devices {
			if d.UUID == p.ID {
				figures, gi, ci = d.Usage, d.GPUInstance, d.ComputeInstance
			}
		}
	}
	if figures == nil {
		return u
	}
	u.Bytes, u.NoBytesReason = figures.MemoryUsed, ""
	if figures.Utilization != nil {
		u.Busy, u.NoBusyReason = float64(*figures.Utilization), ""
	}
	for _, process := range g.Processes {
		if gi == whole || process.GPUInstance == gi && process.ComputeInstance == ci {
			u.Processes = append(u.Processes, gpu.Process{PID: process.PID, Bytes: process.Memory})
		}
	}
	return u
}
