package systemd

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// few is a [UnitLister] and [DependentsReader] with fixed units.
type few struct {
	units map[string]Unit
	asked []string
}

func (f *few) List(_ context.Context, names []string, _ Fields) ([]Unit, error) {
	var out []Unit
	for _, n := range names {
		out = append(out, f.units[n])
	}
	return out, nil
}

func (f *few) Dependents(_ context.Context, names []string) ([]string, error) {
	f.asked = names
	return []string{"needs.service", "bound-and-masked.service"}, nil
}

func TestRestartedUnits(t *testing.T) {
	unit := func(name, id, load, active string) Unit { return Unit{Name: name, ID: id, Load: load, Active: active} }
	f := &few{units: map[string]Unit{
		"needs.service":            unit("needs.service", "needs.service", "loaded", "active"),
		"bound-and-masked.service": unit("bound-and-masked.service", "bound-and-masked.service", "masked", "active"),
	}}
	got, err := RestartedUnits(t.Context(), f, f, "one.service", []Unit{
		unit("up.service", "up.service", "loaded", "active"),
		unit("alias.service", "real.service", "loaded", "reloading"),
		unit("real.service", "real.service", "loaded", "reloading"),
		unit("masked.service", "masked.service", "masked", "active"),
		unit("gone.service", "gone.service", "not-found", "active"),
		unit("down.service", "down.service", "loaded", "inactive"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, u := range got {
		ids = append(ids, u.ID)
	}
	if diff := cmp.Diff([]string{"up.service", "real.service", "needs.service"}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one.service", "up.service", "real.service"}, f.asked); diff != "" {
		t.Errorf("units whose dependents were read (-want +got):\n%s", diff)
	}
}
