package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// WatchRemoved hears of units that end: its channel gets a value, of 1, when a job has
// ended or a unit was unloaded, as a scope is with its last process, or when that may
// have been missed. It ends with stop.
func (c *Conn) WatchRemoved(ctx context.Context) (ended <-chan struct{}, stop func(), err error) {
	ear, err := c.subscribe(ctx, unitRemovedRules())
	if err != nil {
		return nil, nil, err
	}
	return ear.wake, func() { c.hub.forget(ear) }, nil
}

// ReloadOrRestart has a service reloaded, or started if it is not up, and waits until that is
// over. How it went is for the service to say.
func (c *Conn) ReloadOrRestart(ctx context.Context, name string) error {
	return c.awaitJob(ctx, "ReloadOrRestartUnit", name)
}

// RunOnce has a oneshot started, and waits until its run is over. If one is under way, it
// waits for that one, which may not have seen what has changed meanwhile.
func (c *Conn) RunOnce(ctx context.Context, name string) error {
	return c.awaitJob(ctx, "StartUnit", name)
}

// awaitJob has PID 1 queue a job, and waits until that is over.
func (c *Conn) awaitJob(ctx context.Context, method, name string) error {
	ear, err := c.listen(ctx, unitRules(name))
	if err != nil {
		return err
	}
	defer c.hub.forget(ear)
	ear.follow(name)
	ear.rests()
	var job dbus.ObjectPath
	err = c.once(ctx, &job, managerPath, managerInterface+"."+method, name, "replace")
	if err != nil && !lost(err) {
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	for {
		result, certain := ear.result(job)
		switch {
		case result == "done" || result == "skipped": // a condition is not met
			return nil
		case result != "":
			return fmt.Errorf("cannot start %s: systemd says %q", name, result)
		case !certain:
			list, err := c.list(ctx, []string{name})
			if err != nil || list[0].unit.Settled() {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot start %s: %w", name, ctx.Err())
		case <-ear.wake:
		}
	}
}
