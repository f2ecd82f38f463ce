package systemd

import (
	"context"
	"maps"
	"slices"
)

// Triggers returns the active sockets, timers and paths that start one of the units
// (TriggeredBy=), sorted by name. Such a unit fails when the unit that it starts fails too
// often.
func (c *Conn) Triggers(ctx context.Context, names []string) ([]Unit, error) {
	by := make([][]string, len(names))
	err := each(len(names), func(i int) error {
		return c.property(ctx, names[i], unitInterface, "TriggeredBy", &by[i])
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
	units, err := c.Units(ctx, slices.Sorted(maps.Keys(all)))
	return slices.DeleteFunc(units, func(u Unit) bool { return !u.Up() || u.Load != "loaded" }), err
}
