package systemd

import (
	"context"
	"slices"

	"dcm/internal/linux/unitname"
)

// Up reports whether a unit runs or is on its way there.
func (u Unit) Up() bool {
	return slices.Contains([]string{"active", "activating", "reloading", "refreshing"}, u.Active)
}

// Known is what PID 1 knows of units. [Conn] is one.
type Known interface {
	Units(ctx context.Context, names []string) ([]Unit, error)
	Dependents(ctx context.Context, names []string) ([]string, error)
}

// RestartedUnits returns the units that a restart of one stops and starts again: those of its
// parts that are up, and what depends on them or on it. One that systemd could not
// start again, as its file is masked or gone, it does not stop either. dcm's own units are
// not among them.
func RestartedUnits(ctx context.Context, k Known, restarted string, parts []Unit) ([]Unit, error) {
	names := []string{restarted}
	var out []Unit
	for _, u := range parts {
		if u.Up() && u.Load == "loaded" && !slices.Contains(names, u.ID) { // by two names, maybe
			out, names = append(out, u), append(names, u.ID)
		}
	}
	more, err := k.Dependents(ctx, names)
	if err != nil || len(more) == 0 {
		return out, err
	}
	dependents, err := k.Units(ctx, more)
	dependents = slices.DeleteFunc(dependents, func(u Unit) bool { return u.Load != "loaded" || unitname.Own(u.ID) })
	return append(out, dependents...), err
}
