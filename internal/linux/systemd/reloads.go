package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Reloads returns a channel, of capacity 1, that gets a value when a reload of PID 1 begins or
// ends, after a daemon-reexec, and when such a signal may have been lost. PID 1 answers a call
// that is made during a reload after the reload. stop ends that.
func (c *Conn) Reloads(ctx context.Context) (reloaded <-chan struct{}, stop func(), err error) {
	sub, err := c.subscribe(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	sub.follow("") // no unit: the private socket has the signals of all units
	return sub.wake, func() { c.signals.remove(sub) }, nil
}

// LoadedAt returns when PID 1 last loaded its units, in µs of CLOCK_MONOTONIC.
func (c *Conn) LoadedAt(ctx context.Context) (uint64, error) {
	var v dbus.Variant
	var at uint64
	err := c.call(ctx, &v, managerPath, properties+".Get", managerInterface, "UnitsLoadTimestampMonotonic")
	if err == nil {
		err = v.Store(&at)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read when systemd loaded its units: %w", err)
	}
	return at, nil
}

// TryRestart queues the restart of a unit if that is active, and does not wait. It fails if a
// conflicting job is queued.
func (c *Conn) TryRestart(ctx context.Context, name string) error {
	if err := c.once(ctx, nil, managerPath, managerInterface+".TryRestartUnit", name, "fail"); err != nil {
		return fmt.Errorf("cannot restart %s: %w", name, err)
	}
	return nil
}
