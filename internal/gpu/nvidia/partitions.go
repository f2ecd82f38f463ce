package nvidia

import (
	"cmp"
	"fmt"
	"slices"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
)

// partsOf returns the MIG devices of a GPU in the order of their placements; with MIG off, the GPU
// itself. The index of a MIG device is the first memory slot of its GPU instance plus its position in
// it, so that it stays when other instances of the GPU are created or destroyed. A GPU instance has at
// least as many slots as compute instances. The own node of a MIG device is the capability node of its
// compute instance. Other MIG devices share the nodes of the GPU instance and of the GPU.
func partsOf(g nvml.GPU, minors map[string]int) []gpu.Part {
	if g.Minor == nil {
		return nil
	}
	own := fmt.Sprintf("/dev/nvidia%d", *g.Minor)
	every := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}
	if g.MIG == nil || !g.MIG.Current {
		return []gpu.Part{{ID: g.UUID, UUID: g.UUID, Node: own, CompanionNodes: every, Bytes: g.Memory}}
	}
	var out []gpu.Part
	for _, i := range byPlacement(g.Instances) {
		for n, c := range i.Compute {
			shared, there := minors[fmt.Sprintf("gpu%d/gi%d/access", *g.Minor, i.ID)]
			private, also := minors[fmt.Sprintf("gpu%d/gi%d/ci%d/access", *g.Minor, i.ID, c.ID)]
			if !there || !also {
				continue // the driver has no node for it
			}
			out = append(out, gpu.Part{
				Index: i.Place.Start + n, ID: uuid(g, i.ID, c.ID), UUID: uuid(g, i.ID, c.ID), Profile: c.Profile, Start: i.Place.Start, Bytes: memoryOf(g, i),
				Node: capNode(private), CompanionNodes: append([]string{capNode(shared), own}, every...),
			})
		}
	}
	return out
}

func byPlacement(list []nvml.Instance) []nvml.Instance {
	return slices.SortedStableFunc(slices.Values(list), func(a, b nvml.Instance) int { return cmp.Compare(a.Place.Start, b.Place.Start) })
}

// uuid returns the UUID by which programs select a MIG device.
func uuid(g nvml.GPU, gi, ci int) string {
	for _, d := range g.Devices {
		if d.GPUInstance == gi && d.ComputeInstance == ci {
			return d.UUID
		}
	}
	return ""
}

// memoryOf returns the memory of the GPU instance, which its compute instances share.
func memoryOf(g nvml.GPU, i nvml.Instance) uint64 {
	for _, p := range g.Profiles {
		if p.ID == i.ProfID {
			return p.MemoryMB << 20
		}
	}
	return 0
}
