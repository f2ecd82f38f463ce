package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// RefreshDevicePolicy has the list of devices that a unit may open (DeviceAllow=) be looked up anew: what
// it says of drivers that were not loaded, and of links and nodes that were not there,
// systemd has passed over at the start. It does so when it is told a setting of that list
// again, and this is the policy that the unit has, until the next boot.
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
