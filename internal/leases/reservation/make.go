package reservation

import (
	"errors"
	"fmt"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
)

// RoomToMake returns an error that names the first reservation whose instance no GPU of the profile could
// get. Instances of leases and of other services do not count: they end.
func RoomToMake(list []config.Reservation, p partition.Profile, gpus []partition.GPU) error {
	layout, err := p.Layout(gpus)
	if err != nil {
		return err
	}
	for _, r := range list {
		if r.Make == "" {
			continue
		}
		if err := roomToMake(r, layout, gpus); err != nil {
			return fmt.Errorf("%s: reservation %s: %w", r.Source, r.Name, err)
		}
	}
	return nil
}

// OthersOnDynamic returns an error that names the first reservation by which another manager could allocate
// partitions of a dynamic GPU of the profile: it has no unit. Leases and services of dcm change such a GPU.
func OthersOnDynamic(list []config.Reservation, p partition.Profile, gpus []partition.GPU) error {
	layout, err := p.Layout(gpus)
	if err != nil {
		return err
	}
	for _, r := range list {
		only, err := partition.Select(r.GPUs, gpus)
		if r.Unit != "" || err != nil {
			continue // Room reports a missing GPU
		}
		for _, g := range gpus {
			if layout.DynamicAmong(only, g.Address) {
				return fmt.Errorf("%s: reservation %s: gpus: %s is dynamic in the profile and belongs to dcm alone\nhint: list only other GPUs in gpus", r.Source, r.Name, g.Address)
			}
		}
	}
	return nil
}

func roomToMake(r config.Reservation, layout partition.Layout, gpus []partition.GPU) error {
	only, err := partition.Select(r.GPUs, gpus)
	if err != nil {
		return err
	}
	none := errors.New("no GPU of the profile with MIG is dynamic\nhint: set dynamic = true in a group of the profile with mig, see dcm.toml(5)")
	if len(only) > 0 {
		none = errors.New("none of its GPUs is dynamic in the profile\nhint: set dynamic = true in their group, see dcm.toml(5)")
	}
	for _, g := range gpus {
		mig := layout.Shapes[g.Address].MIG // nil: leases switch its compute mode
		if !layout.DynamicAmong(only, g.Address) || mig == nil {
			continue
		}
		fixed := slices.DeleteFunc(slices.Clone(mig.Instances), func(i partition.Instance) bool {
			return slices.ContainsFunc(g.Made, func(m partition.Instance) bool { return m.Profile == i.Profile && m.Start == i.Start })
		})
		err := g.RoomFor(fixed, r.Make)
		if err == nil {
			return nil
		}
		none = fmt.Errorf("%s: %w", g.Address, err)
	}
	return none
}
