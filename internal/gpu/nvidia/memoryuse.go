package nvidia

import (
	"context"
	"path/filepath"
	"strconv"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/procstat"
)

// memoryReader reads the memory use of whole GPUs.
type memoryReader struct {
	host   host
	client *client
}

// read is the MemoryUse of [gpu.Vendor].
func (r *memoryReader) read(ctx context.Context, gpus []partition.Address) ([]gpu.MemoryUse, error) {
	if r.host.module().State() == "" {
		return nil, nil
	}
	reply, err := r.client.call(ctx, nvml.Request{Do: nvml.Look, Usage: true, GPUs: gpus})
	if err != nil {
		return nil, err
	}
	var out []gpu.MemoryUse
	for _, g := range reply.GPUs {
		if m, known := r.of(g); known {
			out = append(out, m)
		}
	}
	return out, nil
}

// of returns the memory use of one GPU. known is false if the driver does not report it, or does not
// report the memory of one of its processes, or if the kernel uses the memory too.
func (r *memoryReader) of(g nvml.GPU) (m gpu.MemoryUse, known bool) {
	if g.Error != nil || g.Usage == nil || r.host.online(g.Address) {
		return m, false
	}
	m = gpu.MemoryUse{GPU: g.Address, Total: g.Usage.MemoryTotal, Used: g.Usage.MemoryUsed}
	counted := make(map[nvml.Process]bool)
	for _, p := range g.Processes {
		if procstat.Ended(filepath.Join(r.host.Proc, strconv.Itoa(p.PID))) {
			continue
		}
		if p.Memory == 0 {
			return m, false
		}
		p.Graphics = false // a process with CUDA and graphics is in both lists, with the same memory
		if m.Busy = true; !counted[p] {
			counted[p] = true
			m.Visible += p.Memory
		}
	}
	return m, true
}
