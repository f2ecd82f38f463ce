package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// RefreshDevicePolicy makes PID 1 resolve the DeviceAllow= of a unit again. At the unit's start,
// PID 1 skips drivers that are not loaded, and nodes and links that do not exist. It resolves
// the list again when one of its properties is set: here DevicePolicy=, to its present value,
// until the next boot.
func (c *Conn) RefreshDevicePolicy(ctx context.Context, name string) error {
	const policy = "DevicePolicy"
	var now string
	if err := c.property(ctx, name, serviceInterface, policy, &now); err != nil {
		return err
	}
	same := []property{{policy, dbus.MakeVariant(now)}}
	if err := c.call(ctx, nil, managerPath, managerInterface+".SetUnitProperties", name, true, same); err != nil {
		return fmt.Errorf("cannot have the devices of %s looked up anew: %w", name, err)
	}
	return nil
}
