package host

import (
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Minors returns the device minors that the kernel has, and their users.
func Minors(h *Host) (gpu.Minors, error) {
	return gpu.ReadMinors(h.Path("sys"), h.Kernel(), OpenNode(h, nil).Drivers().Traits())
}

// Shortage returns the partitions of the GPUs that get no device node, nil if each gets one or if
// that is unknown.
func Shortage(h *Host, gpus []partition.GPU) *gpu.Shortage {
	m, err := Minors(h)
	if err != nil {
		return nil
	}
	return m.Shortage(gpus)
}
