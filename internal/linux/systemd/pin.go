package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// PID 1 forgets a unit that is down as soon as no loaded unit refers to it: when it ran,
// and whether it ended by itself or was stopped. Services that nothing wants, and
// instances of templates, are such units.

// holding are the slices that refer to units, the second for while the first is there.
// They are empty, and below none of dcm's: a dash in the name would make them so.
func holding() [2]string { return [2]string{"dcm_owes_a.slice", "dcm_owes_b.slice"} }

// Pin has PID 1 remember how units came to be down, until [Conn.Unpin], or until the
// host goes down.
func (c *Conn) Pin(ctx context.Context, units []string) error {
	properties := variants([]Property{
		{"Description", "Units that are to be up again when dcm is done"},
		// As good as any dependency to refer to them by, and of no effect: the slice is up
		// long before they are started, and is not stopped together with them.
		{"Before", units},
	})
	for i, name := range holding() {
		var job dbus.ObjectPath
		err := c.transient(ctx, &job, name, properties)
		switch {
		case err == nil || lost(err):
			return c.Stop(ctx, holding()[1-i])
		case !isRemote(err, "org.freedesktop.systemd1.UnitExists"):
			return fmt.Errorf("cannot start %s: %w", name, err)
		}
	}
	return errors.New("cannot have systemd remember units: it still does so for those of two runs before")
}

// Unpin lets PID 1 forget.
func (c *Conn) Unpin(ctx context.Context) error {
	var errs []error
	for _, name := range holding() {
		errs = append(errs, c.Stop(ctx, name))
	}
	return errors.Join(errs...)
}
