package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Pins keeps units loaded. PID 1 unloads an inactive unit when no loaded unit refers to it, and
// forgets when the unit ran and whether it was stopped. This concerns services that no unit wants
// and instances of templates.
type Pins struct{ t *transport }

// pinSlices returns the slices that refer to units, the second for use while the first exists.
// They are empty. A dash in the name would put them below dcm.slice.
func pinSlices() [2]string { return [2]string{"dcm_owes_a.slice", "dcm_owes_b.slice"} }

// Pin keeps units loaded until [Pins.Unpin] or the host's shutdown.
func (p Pins) Pin(ctx context.Context, units []string) error {
	properties := variants([]Property{
		{"Description", "Units that dcm restarts after a change"},
		// Any dependency is a reference. This one has no effect: the slice is active before
		// the units are started, and is not stopped together with them.
		{"Before", units},
	})
	for i, name := range pinSlices() {
		var job dbus.ObjectPath
		err := Transients(p).queue(ctx, &job, name, properties)
		switch {
		case err == nil || lost(err):
			return Jobs(p).Stop(ctx, pinSlices()[1-i])
		case !isRemote(err, "org.freedesktop.systemd1.UnitExists"):
			return fmt.Errorf("cannot start %s: %w", name, err)
		}
	}
	return errors.New("cannot keep units loaded: both slices that pin units exist")
}

// Unpin ends [Pins.Pin].
func (p Pins) Unpin(ctx context.Context) error {
	var errs []error
	for _, name := range pinSlices() {
		errs = append(errs, Jobs(p).Stop(ctx, name))
	}
	return errors.Join(errs...)
}
