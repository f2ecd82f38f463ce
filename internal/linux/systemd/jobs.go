package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// WatchRemoved returns a channel, of capacity 1, that gets a value when a job has ended or a
// unit was unloaded, as a scope is after its last process, or when such a signal may have been
// lost. stop ends that.
func (c *Conn) WatchRemoved(ctx context.Context) (removed <-chan struct{}, stop func(), err error) {
	sub, err := c.subscribe(ctx, unitRemovedRules())
	if err != nil {
		return nil, nil, err
	}
	return sub.wake, func() { c.signals.remove(sub) }, nil
}

// ReloadOrRestart reloads a service, or starts it if it is not active, and waits until that is
// done. The service itself reports whether the reload succeeded.
func (c *Conn) ReloadOrRestart(ctx context.Context, name string) error {
	return c.runJob(ctx, "ReloadOrRestartUnit", name)
}

// RunOnce starts a oneshot and waits until its run is over. If a run is in progress, it waits
// for that one, which may have begun before the latest changes.
func (c *Conn) RunOnce(ctx context.Context, name string) error {
	return c.runJob(ctx, "StartUnit", name)
}

// runJob has PID 1 queue a job by that method and waits until the job is over.
func (c *Conn) runJob(ctx context.Context, method, name string) error {
	err := c.awaitJob(ctx, name, func(job *dbus.ObjectPath) error {
		return c.once(ctx, job, managerPath, managerInterface+"."+method, name, "replace")
	}, func(result string, _ bool) (bool, error) {
		switch result {
		case "done", "skipped": // skipped: a condition is not met
			return true, nil
		case "":
			units, err := c.List(ctx, []string{name}, States)
			return err == nil && units[0].Settled(), err
		}
		return true, fmt.Errorf("systemd says %q", result)
	})
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	return nil
}
