package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// Reload makes PID 1 run the generators and load the unit files again, as `systemctl
// daemon-reload` does, and waits until that is done.
func (c *Conn) Reload(ctx context.Context) error {
	if err := c.call(ctx, nil, managerPath, managerInterface+".Reload"); err != nil {
		return fmt.Errorf("cannot reload systemd: %w", err)
	}
	return nil
}

// ResetFailed clears a unit's failed state and the count of its starts, which
// StartLimitBurst= limits. A unit that is not loaded has neither.
func (c *Conn) ResetFailed(ctx context.Context, name string) error {
	err := c.call(ctx, nil, managerPath, managerInterface+".ResetFailedUnit", name)
	if err != nil && !isRemote(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return fmt.Errorf("cannot reset %s: %w", name, err)
	}
	return nil
}

// Start queues the start of a unit and does not wait. It has no effect on a unit that is active
// or starting, and fails for one that is being stopped.
func (c *Conn) Start(ctx context.Context, name string) error {
	if err := c.call(ctx, nil, managerPath, managerInterface+".StartUnit", name, "fail"); err != nil {
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	return nil
}

// UserspaceStart returns when PID 1 started: at boot, or at the last soft-reboot.
func (c *Conn) UserspaceStart(ctx context.Context) (time.Time, error) {
	var v dbus.Variant
	var microseconds uint64
	err := c.call(ctx, &v, managerPath, properties+".Get", managerInterface, "UserspaceTimestamp")
	if err == nil {
		err = v.Store(&microseconds)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read when systemd started: %w", err)
	}
	return time.UnixMicro(int64(microseconds)), nil
}

// isRemote reports whether err is the D-Bus error with that name.
func isRemote(err error, name string) bool {
	var remote dbus.Error
	return errors.As(err, &remote) && remote.Name == name
}
