package nvidia

import (
	"context"
	"strings"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
)

// capNodes is the directory of the device nodes of MIG devices.
const capNodes = "/dev/nvidia-caps/"

// counters is the Counters of [gpu.Vendor]. The driver has a counter of the energy of a GPU, and none of a
// MIG device. It has no counter of utilisation, so that value is missing: the NVML API reference says of
// nvmlDeviceGetUtilizationRates, nvmlDeviceGetProcessUtilization and nvmlDeviceGetSamples, which cover the last
// seconds, that they do not support MIG, and of nvmlDeviceSetAccountingMode that MIG disables it. nvmlGpmMetricsGet
// compares two samples that only the process that took them has.
func (c *client) counters(ctx context.Context, parts []gpu.CountedPartition) ([]gpu.PartitionCounters, error) {
	request := nvml.Request{Do: nvml.Look, Usage: true}
	for _, p := range parts {
		if !strings.HasPrefix(p.Render, capNodes) {
			request.GPUs = append(request.GPUs, p.GPU)
		}
	}
	out := make([]gpu.PartitionCounters, len(parts))
	for i, p := range parts {
		out[i].GPU, out[i].Index = p.GPU, p.Index
	}
	if len(request.GPUs) == 0 {
		return out, nil // without a call of the library
	}
	reply, err := c.call(ctx, request)
	if err != nil {
		return nil, err
	}
	energy := make(map[partition.Address]uint64)
	for _, g := range reply.GPUs {
		if g.Usage != nil {
			energy[g.Address] = g.Usage.Energy
		}
	}
	for i, p := range parts {
		if !strings.HasPrefix(p.Render, capNodes) {
			out[i].Energy = energy[p.GPU] * 1000
		}
	}
	return out, nil
}
