package systemd

import (
	"context"
	"maps"
	"slices"

	"dcm/internal/linux/unitname"
)

// Dependencies reads the dependencies between units and their order.
type Dependencies struct{ t *transport }

// stopPropagation returns the properties that list the units that a stop of a unit stops: the
// reverse of Requires=, BindsTo=, PartOf= and Requisite=, and
// PropagatesStopTo= (UNIT_ATOM_PROPAGATE_STOP in systemd).
func stopPropagation() []string {
	return []string{"RequiredBy", "BoundBy", "ConsistsOf", "RequisiteOf", "PropagatesStopTo"}
}

// Dependents returns the active units that a restart of the named ones also restarts, sorted,
// without the named ones. As in systemd, a unit that is not active propagates nothing, except
// the restarted one: dcm-apply.service or dcm-reserve.service.
func (d Dependencies) Dependents(ctx context.Context, names []string) ([]string, error) {
	level, err := d.up(ctx, names)
	if err != nil {
		return nil, err
	}
	seen, out := map[string]bool{}, map[string]bool{}
	for _, l := range level {
		seen[l.primary] = true
	}
	for len(level) > 0 {
		next, err := d.stoppedBy(ctx, level, seen)
		if err != nil {
			return nil, err
		}
		if level, err = d.up(ctx, next); err != nil {
			return nil, err
		}
		for _, l := range level {
			out[l.primary] = true
		}
	}
	return slices.Sorted(maps.Keys(out)), nil
}

// stoppedBy returns the direct dependents that are not in seen.
func (d Dependencies) stoppedBy(ctx context.Context, level []listed, seen map[string]bool) ([]string, error) {
	found := make([][]string, len(level))
	err := each(len(level), func(i int) error {
		for _, property := range stopPropagation() {
			var units []string
			if err := d.t.property(ctx, level[i].primary, unitInterface, property, &units); err != nil {
				return err
			}
			found[i] = append(found[i], units...)
		}
		return nil
	})
	var next []string
	for _, u := range slices.Concat(found...) {
		if !seen[u] {
			seen[u] = true
			next = append(next, u)
		}
	}
	return next, err
}

// up returns those of the units that are active or starting, and dcm's oneshots that are
// restarted.
func (d Dependencies) up(ctx context.Context, names []string) ([]listed, error) {
	list, err := d.t.list(ctx, names)
	return slices.DeleteFunc(list, func(l listed) bool {
		restarted := l.primary == unitname.Reserve || slices.Contains(unitname.Runs(), l.primary)
		return !restarted && slices.Contains([]string{"inactive", "failed", "deactivating"}, l.unit.Active)
	}), err
}

// forwardStops returns the properties that list the units with which a unit stops, see [stopPropagation].
func forwardStops() []string {
	return []string{"Requires", "BindsTo", "PartOf", "Requisite", "StopPropagatedFrom"}
}

// StoppedWith returns those of the units that stop with a unit for which with returns true, directly or through each
// other. Unlike [Dependencies.Dependents] it does not depend on which units are active.
func (d Dependencies) StoppedWith(ctx context.Context, names []string, with func(unit string) bool) ([]string, error) {
	needs := make([][]string, len(names))
	err := each(len(names), func(i int) error {
		for _, property := range forwardStops() {
			var units []string
			if err := d.t.property(ctx, names[i], unitInterface, property, &units); err != nil {
				return err
			}
			needs[i] = append(needs[i], units...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []string
	stopped := func(unit string) bool { return with(unit) || slices.Contains(out, unit) }
	for before := -1; before < len(out); {
		before = len(out)
		for i, name := range names {
			if !slices.Contains(out, name) && slices.ContainsFunc(needs[i], stopped) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// Triggers returns the active sockets, timers and paths that start one of the units
// (TriggeredBy=), sorted by name. Such a unit fails when the unit that it starts fails too
// often.
func (d Dependencies) Triggers(ctx context.Context, names []string) ([]Unit, error) {
	by := make([][]string, len(names))
	err := each(len(names), func(i int) error {
		return d.t.property(ctx, names[i], unitInterface, "TriggeredBy", &by[i])
	})
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool)
	for _, name := range slices.Concat(by...) {
		all[name] = true
	}
	if len(all) == 0 {
		return nil, nil
	}
	units, err := Units(d).List(ctx, slices.Sorted(maps.Keys(all)), All)
	return slices.DeleteFunc(units, func(u Unit) bool { return !u.Up() || u.Load != "loaded" }), err
}
