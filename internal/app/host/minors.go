package host

import (
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Minors is what the kernel has for device nodes, and who has taken some.
func (h *Host) Minors() (gpu.Minors, error) { return h.Node(nil).Minors(h.kernel()) }

// Short tells which partitions of GPUs that are so, or become so, get no device node;
// nil if each has one, or if that cannot be seen.
func (h *Host) Short(gpus []partition.GPU) *gpu.Shortage {
	m, err := h.Minors()
	if err != nil {
		return nil
	}
	return m.Shortage(gpus)
}
