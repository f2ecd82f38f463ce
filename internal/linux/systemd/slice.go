package systemd

import (
	"context"
	"slices"
	"strings"

	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Tenant is a unit below a slice.
type Tenant struct {
	Unit        string
	Active      string // systemd's ActiveState
	Description string
	Allow       []string // the paths of its DeviceAllow=, as PID 1 has them
}

// UnitsInSlice returns the units below a slice and the slices in it that are not inactive, by
// name. known returns the paths of a unit's DeviceAllow= if the caller has them, so that they
// are not read; known may be nil.
func (g Cgroups) UnitsInSlice(ctx context.Context, slice string, known func(unit string) (allow []string, ok bool)) ([]Tenant, error) {
	names, err := g.below(ctx, slice)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	list, err := g.t.list(ctx, names)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l listed) bool { return !l.up() })
	out := make([]Tenant, len(list))
	var unknown []int // the lists that are read
	for i, l := range list {
		out[i] = Tenant{Unit: sanitize.Text(l.unit.Name), Active: l.unit.Active, Description: sanitize.Text(l.description)}
		ok := false
		if known != nil {
			out[i].Allow, ok = known(out[i].Unit)
		}
		if !ok {
			unknown = append(unknown, i)
		}
	}
	err = each(len(unknown), func(n int) (err error) {
		i := unknown[n]
		if out[i].Allow, err = g.deviceAllow(ctx, list[i].unit.Name); err != nil {
			out[i].Active = "" // removed below, if the unit has ended
			return g.t.unloadedSince(ctx, list[i].unit.Name, err)
		}
		return nil
	})
	sorting.By(out, func(a, b Tenant) int { return strings.Compare(a.Unit, b.Unit) })
	return slices.DeleteFunc(out, func(t Tenant) bool { return t.Active == "" }), err
}

func (g Cgroups) below(ctx context.Context, slice string) ([]string, error) {
	var names []string
	if err := g.t.property(ctx, slice, unitInterface, "SliceOf", &names); err != nil {
		return nil, err
	}
	out := slices.Clone(names)
	for _, n := range names {
		if strings.HasSuffix(n, ".slice") {
			more, err := g.below(ctx, n)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// deviceAllow returns the paths of a unit's DeviceAllow=.
func (g Cgroups) deviceAllow(ctx context.Context, unit string) ([]string, error) {
	iface := cgroupInterface(unit)
	if iface == "" {
		return nil, nil
	}
	var list []permission
	err := g.t.property(ctx, unit, iface, "DeviceAllow", &list)
	var paths []string
	for _, entry := range list {
		paths = append(paths, sanitize.Text(entry.Path))
	}
	return paths, err
}
