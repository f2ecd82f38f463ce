package systemd

import (
	"context"
	"slices"

	"dcm/internal/linux/unitname"
)

// UnitLister lists units. [Units] implements it.
type UnitLister interface {
	List(ctx context.Context, names []string, fields Fields) ([]Unit, error)
}

// DependentsReader reads dependents. [Dependencies] implements it.
type DependentsReader interface {
	Dependents(ctx context.Context, names []string) ([]string, error)
}

// RestartedUnits returns the units that a restart of unit also restarts: the active ones of its
// parts (PartOf=), and the units that depend on unit or on a part. systemd does not stop a unit
// that it cannot start again, because its file is masked or missing. dcm's own units are not
// included.
func RestartedUnits(ctx context.Context, units UnitLister, deps DependentsReader, restarted string, parts []Unit) ([]Unit, error) {
	names := []string{restarted}
	var out []Unit
	for _, u := range parts {
		if u.Up() && u.Load == "loaded" && !slices.Contains(names, u.ID) { // a unit may have two names
			out, names = append(out, u), append(names, u.ID)
		}
	}
	more, err := deps.Dependents(ctx, names)
	if err != nil || len(more) == 0 {
		return out, err
	}
	dependents, err := units.List(ctx, more, All)
	dependents = slices.DeleteFunc(dependents, func(u Unit) bool { return u.Load != "loaded" || unitname.Own(u.ID) })
	return append(out, dependents...), err
}
