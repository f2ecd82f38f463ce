package host

import (
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Minors is what the kernel has for device nodes, and who has taken some.
func Minors(h *Host) (gpu.Minors, error) {
	return gpu.ReadMinors(h.Path("sys"), h.Kernel(), OpenNode(h, nil).Traits())
}

// Shortage tells which partitions of GPUs that are so, or become so, get no device node;
// nil if each has one, or if that cannot be seen.
func Shortage(h *Host, gpus []partition.GPU) *gpu.Shortage {
	m, err := Minors(h)
	if err != nil {
		return nil
	}
	return m.Shortage(gpus)
}
