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
// name. lists is false if the caller does not need their DeviceAllow=, which takes one more call
// for each.
func (g Cgroups) UnitsInSlice(ctx context.Context, slice string, lists bool) ([]Tenant, error) {
	names, err := g.NamesInSlice(ctx, slice)
	if err != nil {
		return nil, err
	}
	return g.Tenants(ctx, names, lists)
}

// Tenants returns those of the units that are not inactive, by name.
func (g Cgroups) Tenants(ctx context.Context, names []string, lists bool) ([]Tenant, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := g.t.list(ctx, names)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l listed) bool { return !l.up() })
	out := make([]Tenant, len(list))
	err = each(len(list), func(i int) (err error) {
		l := list[i]
		out[i] = Tenant{Unit: sanitize.Text(l.unit.Name), Active: l.unit.Active, Description: sanitize.Text(l.description)}
		if !lists {
			return nil
		}
		if out[i].Allow, err = g.deviceAllow(ctx, l.unit.Name); err != nil {
			out[i].Active = "" // removed below, if the unit has ended
			return g.t.unloadedSince(ctx, l.unit.Name, err)
		}
		return nil
	})
	sorting.By(out, func(a, b Tenant) int { return strings.Compare(a.Unit, b.Unit) })
	return slices.DeleteFunc(out, func(t Tenant) bool { return t.Active == "" }), err
}

// NamesInSlice returns the names of the loaded units below a slice and the slices in it. They
// include a unit that is inactive until PID 1 unloads it, a transient one only for a moment.
func (g Cgroups) NamesInSlice(ctx context.Context, slice string) ([]string, error) {
	var names []string
	if err := g.t.property(ctx, slice, unitInterface, "SliceOf", &names); err != nil {
		return nil, err
	}
	out := slices.Clone(names)
	for _, n := range names {
		if strings.HasSuffix(n, ".slice") {
			more, err := g.NamesInSlice(ctx, n)
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
