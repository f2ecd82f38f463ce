package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Reloads returns a channel, of 1, that gets a value when PID 1 has reloaded its units, for
// whoever requested it, was replaced (daemon-reexec), or that may have been missed. It also
// gets one when a reload begins: a call to PID 1 that follows is answered after it. stop
// ends that.
func (c *Conn) Reloads(ctx context.Context) (reloaded <-chan struct{}, stop func(), err error) {
	sub, err := c.subscribe(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	sub.follow("") // no unit: by the private socket the changes of all units come too
	return sub.wake, func() { c.signals.remove(sub) }, nil
}

// LoadedAt returns when PID 1 loaded its units last, in µs of CLOCK_MONOTONIC. While it
// does so again it does not answer.
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

// TryRestart has a unit restarted if it is active, and does not wait for it. It fails if
// another job of the unit is queued that contradicts it.
func (c *Conn) TryRestart(ctx context.Context, name string) error {
	if err := c.once(ctx, nil, managerPath, managerInterface+".TryRestartUnit", name, "fail"); err != nil {
		return fmt.Errorf("cannot restart %s: %w", name, err)
	}
	return nil
}
