package systemd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Realize makes PID 1 apply the loaded properties of the active units in a slice to their
// cgroups. PID 1 does so when another unit is started in the slice: here an empty slice, which
// is stopped again.
//
// Setting a property of the unit has the same effect, but also on a unit that has just been
// stopped, which then keeps that device list for its next start.
func (c *Conn) Realize(ctx context.Context, slice string) error {
	name := realizing(slice)
	err := c.startTransient(ctx, name, func(job *dbus.ObjectPath) error {
		return c.transient(ctx, job, name, variants([]Property{{"Description", "Apply the properties of the units in " + slice}}))
	})
	if err = errors.Join(err, c.Stop(context.WithoutCancel(ctx), name)); err != nil {
		return fmt.Errorf("cannot have the properties of the units in %s applied: %w", slice, err)
	}
	return nil
}

// realizing returns the name of a slice below the slice. No reservation has that slice: a part of
// the name of a reservation's slice never begins with ':'.
func realizing(slice string) string { return strings.TrimSuffix(slice, ".slice") + "-:realize.slice" }
