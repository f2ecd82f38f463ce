package reservation

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
)

// Late returns the dynamic GPUs of the effective profile: leases and reservations that create nothing get
// partitions of other GPUs first, see [placement.Want].
func Late(cfg *config.Config, devices []gpu.Device) map[partition.Address]int {
	if cfg == nil || cfg.Selected == "" {
		return nil
	}
	return lateIn(cfg.Profile, gpu.Partitionable(devices))
}

func lateIn(p partition.Profile, gpus []partition.GPU) map[partition.Address]int {
	layout, err := p.Layout(gpus)
	if err != nil {
		return nil // no run puts such a profile on the GPUs
	}
	out := make(map[partition.Address]int)
	for a, dynamic := range layout.Dynamic {
		if dynamic {
			out[a] = 1
		}
	}
	return out
}

// BlockDynamic returns a warning for each reservation that has partitions of a dynamic GPU whose compute mode
// leases switch: no lease can switch it. after are the GPUs with the profile.
func BlockDynamic(list []config.Reservation, p partition.Profile, gpus, after []partition.GPU) []string {
	late := lateIn(p, gpus)
	node, wants, met, err := resolve(list, after, nil)
	if err != nil || len(late) == 0 {
		return nil // the error is that of Room
	}
	for i := range wants {
		wants[i].Late = late
	}
	gpuOf := make(map[string]partition.GPU) // by the name of the partition
	for _, part := range node {
		for _, g := range after {
			if g.Address == part.GPU {
				gpuOf[part.Name] = g
			}
		}
	}
	granted, _ := lease.Reserve(node, wants, nil, nil)
	var out []string
	for _, r := range met {
		for _, name := range granted[r.Name].Partitions {
			if g := gpuOf[name]; late[g.Address] > 0 && g.MIG == nil {
				out = append(out, fmt.Sprintf("%s: reservation %s: %s is dynamic, and 'dcm run --make' cannot switch it then\nhint: list other GPUs in gpus, or reserve fewer partitions", r.Source, r.Name, g.Address))
				break
			}
		}
	}
	return out
}

// NothingToMake returns a warning if the profile has dynamic GPUs on which no lease can create an instance or
// switch the compute mode: the instances of the profile leave no slot, or the GPU has no other mode.
func NothingToMake(p partition.Profile, gpus []partition.GPU) []string {
	layout, err := p.Layout(gpus)
	if err != nil {
		return nil // the error is that of a run
	}
	var full, single []string
	for _, g := range gpus {
		want := layout.Shapes[g.Address]
		switch {
		case !layout.Dynamic[g.Address]:
		case want.MIG == nil:
			if g.Memory == want.Memory && len(g.AvailableCompute) == 1 && g.AvailableCompute[0] == want.Compute {
				single = append(single, string(g.Address))
			}
		case len(g.OfferedProfiles()) > 0 && !slices.ContainsFunc(g.OfferedProfiles(), func(s partition.InstanceProfile) bool { return g.RoomFor(want.MIG.Instances, s.Name) == nil }):
			full = append(full, string(g.Address))
		}
	}
	var out []string
	if len(full) > 0 {
		out = append(out, fmt.Sprintf("profile %q: dynamic has no effect on %s: mig leaves no slot for another instance", p.Name, strings.Join(full, ", ")))
	}
	if len(single) > 0 {
		out = append(out, fmt.Sprintf("profile %q: dynamic has no effect on %s: no other compute mode is available", p.Name, strings.Join(single, ", ")))
	}
	return out
}
