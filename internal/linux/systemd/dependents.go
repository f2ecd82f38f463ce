package systemd

import (
	"context"
	"maps"
	"slices"

	"dcm/internal/linux/unitname"
)

// stopsToo are the properties that list which units a stop of this one stops,
// the reverse of Requires=, BindsTo=, PartOf= and Requisite=, and
// PropagatesStopTo= (UNIT_ATOM_PROPAGATE_STOP in systemd).
func stopsToo() []string {
	return []string{"RequiredBy", "BoundBy", "ConsistsOf", "RequisiteOf", "PropagatesStopTo"}
}

// Dependents returns the active units that a restart of the named ones takes
// down and brings up with them, sorted, without the named ones. As in a restart,
// nothing is reached by way of a unit that is not active, but for the one that
// the restart is asked of: dcm-apply.service or dcm-reserve.service.
func (c *Conn) Dependents(ctx context.Context, names []string) ([]string, error) {
	level, err := c.up(ctx, names)
	if err != nil {
		return nil, err
	}
	seen, out := map[string]bool{}, map[string]bool{}
	for _, l := range level {
		seen[l.primary] = true
	}
	for len(level) > 0 {
		next, err := c.stoppedBy(ctx, level, seen)
		if err != nil {
			return nil, err
		}
		if level, err = c.up(ctx, next); err != nil {
			return nil, err
		}
		for _, l := range level {
			out[l.primary] = true
		}
	}
	return slices.Sorted(maps.Keys(out)), nil
}

// stoppedBy returns the direct dependents that were not seen yet.
func (c *Conn) stoppedBy(ctx context.Context, level []listed, seen map[string]bool) ([]string, error) {
	found := make([][]string, len(level))
	err := each(len(level), func(i int) error {
		for _, property := range stopsToo() {
			var units []string
			if err := c.property(ctx, level[i].primary, unitInterface, property, &units); err != nil {
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

// up lists those of the units that are active or about to be, and those that a restart is
// asked of.
func (c *Conn) up(ctx context.Context, names []string) ([]listed, error) {
	list, err := c.list(ctx, names)
	return slices.DeleteFunc(list, func(l listed) bool {
		asked := l.primary == unitname.Apply || l.primary == unitname.Reserve
		return !asked && slices.Contains([]string{"inactive", "failed", "deactivating"}, l.unit.Active)
	}), err
}
