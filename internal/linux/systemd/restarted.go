package systemd

import (
	"context"
	"slices"

	"dcm/internal/linux/unitname"
)

// Up reports whether a unit is active or starting.
func (u Unit) Up() bool {
	return slices.Contains([]string{"active", "activating", "reloading", "refreshing"}, u.Active)
}

// Known reads units. [Conn] implements it.
type Known interface {
	Units(ctx context.Context, names []string) ([]Unit, error)
	Dependents(ctx context.Context, names []string) ([]string, error)
}

// RestartedUnits returns the units that a restart of one also restarts: those of its parts that
// are up, and the units that depend on the parts or on it. systemd does not stop a unit that it
// cannot start again, because its file is masked or missing. dcm's own units are not included.
func RestartedUnits(ctx context.Context, k Known, restarted string, parts []Unit) ([]Unit, error) {
	names := []string{restarted}
	var out []Unit
	for _, u := range parts {
		if u.Up() && u.Load == "loaded" && !slices.Contains(names, u.ID) { // a unit may have two names
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
