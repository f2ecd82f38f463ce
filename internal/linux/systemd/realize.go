package systemd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// RefreshDevicePolicy makes PID 1 resolve the DeviceAllow= of a unit again. At the unit's start,
// PID 1 skips drivers that are not loaded, and nodes and links that do not exist. It resolves
// the list again when one of its properties is set: here DevicePolicy=, to its present value,
// until the next boot.
func (g Cgroups) RefreshDevicePolicy(ctx context.Context, name string) error {
	const policy = "DevicePolicy"
	var now string
	if err := g.t.property(ctx, name, serviceInterface, policy, &now); err != nil {
		return err
	}
	same := []property{{policy, dbus.MakeVariant(now)}}
	if err := g.t.call(ctx, nil, managerPath, managerInterface+".SetUnitProperties", name, true, same); err != nil {
		return fmt.Errorf("cannot refresh the device list of %s: %w", name, err)
	}
	return nil
}

// Realize makes PID 1 apply the loaded properties of the active units in a slice to their
// cgroups. PID 1 does so when another unit is started in the slice: here an empty slice, which
// is stopped again.
//
// Setting a property of the unit has the same effect, but also on a unit that has just been
// stopped, which then keeps that device list for its next start.
func (g Cgroups) Realize(ctx context.Context, slice string) error {
	name := realizing(slice)
	units := Transients(g)
	err := units.start(ctx, name, func(job *dbus.ObjectPath) error {
		return units.queue(ctx, job, name, variants([]Property{{"Description", "Apply the properties of the units in " + slice}}))
	})
	if err = errors.Join(err, Jobs(g).Stop(context.WithoutCancel(ctx), name)); err != nil {
		return fmt.Errorf("cannot apply the properties of the units in %s: %w", slice, err)
	}
	return nil
}

// realizing returns the name of a slice below the slice. No reservation has that slice: a part of
// the name of a reservation's slice never begins with ':'.
func realizing(slice string) string { return strings.TrimSuffix(slice, ".slice") + "-:realize.slice" }
