package systemd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Realize has PID 1 apply to the cgroups of the units in a slice what it has loaded for
// them and the cgroups lack. It does so for the units of a slice that are active when
// another unit is started in it. That is a slice without processes here, which is stopped
// again.
//
// To set a property of the unit itself has the same effect, but also for a unit that has
// just been stopped: it then keeps the device list of that moment for its next start.
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

// realizing is a slice below another one that no reservation's has the name of: a ':' in
// that is never the first character of a part.
func realizing(slice string) string { return strings.TrimSuffix(slice, ".slice") + "-:realize.slice" }
