package systemd

import (
	"context"
	"slices"
	"strings"

	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Confined reads the confinement of units, sorted by name. A template yields its loaded
// instances. Units that are not loaded are omitted.
func (g Cgroups) Confined(ctx context.Context, names []string) ([]Confined, error) {
	list, err := g.t.list(ctx, names)
	if err != nil {
		return nil, err
	}
	return g.confined(ctx, list)
}

// ConfinedLike is Confined for units whose names match a pattern.
func (g Cgroups) ConfinedLike(ctx context.Context, patterns []string) ([]Confined, error) {
	list, err := g.t.matching(ctx, nil, patterns...)
	if err != nil {
		return nil, err
	}
	return g.confined(ctx, list)
}

func (g Cgroups) confined(ctx context.Context, list []listed) ([]Confined, error) {
	list = slices.DeleteFunc(list, func(l listed) bool { return l.unit.Load != "loaded" || cgroupInterface(l.primary) == "" })
	out := make([]Confined, len(list))
	err := each(len(list), func(i int) (err error) {
		out[i], err = g.confinement(ctx, list[i])
		return err
	})
	sorting.By(out, func(a, b Confined) int { return strings.Compare(a.Unit, b.Unit) })
	return slices.DeleteFunc(out, func(u Confined) bool { return u.Unit == "" }), err
}

// confinement reads one unit. If the unit was unloaded meanwhile, as a scope that ends, it
// returns the zero value.
func (g Cgroups) confinement(ctx context.Context, l listed) (Confined, error) {
	u := Confined{Unit: sanitize.Text(l.primary), Active: l.unit.Active, Job: l.unit.Job}
	if !u.Up() {
		return u, nil
	}
	iface := cgroupInterface(l.primary)
	err := g.t.properties(ctx, l.primary, wanted{iface, "Slice", &u.Slice}, wanted{iface, "ControlGroup", &u.Cgroup},
		wanted{iface, "DevicePolicy", &u.Policy}, wanted{unitInterface, startedAt, &u.Started})
	if err == nil {
		u.Allow, err = g.deviceAllow(ctx, l.primary)
	}
	if err == nil {
		u.Invocation, err = g.t.invocation(ctx, l.primary)
	}
	if err != nil {
		return Confined{}, g.t.unloadedSince(ctx, l.primary, err)
	}
	return u, nil
}
