package systemd

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Jobs queues jobs of units: starts, stops, restarts and reloads.
type Jobs struct{ t *transport }

// queueAgain queues a job by a method that has no effect if it is called twice. The mode is that of
// systemctl(1) --job-mode=.
func (j Jobs) queueAgain(ctx context.Context, method, unit, mode string) error {
	return j.t.call(ctx, nil, managerPath, managerInterface+"."+method, unit, mode)
}

// Start queues the start of a unit and does not wait. It has no effect on a unit that is active
// or starting, and fails for one that is being stopped.
func (j Jobs) Start(ctx context.Context, unit string) error {
	if err := j.queueAgain(ctx, "StartUnit", unit, "fail"); err != nil {
		return fmt.Errorf("cannot start %s: %w", unit, err)
	}
	return nil
}

// Stop queues the stop of a unit and does not wait. It is no error if the unit is not loaded.
func (j Jobs) Stop(ctx context.Context, unit string) error {
	err := j.queueAgain(ctx, "StopUnit", unit, "replace")
	if err != nil && !isRemote(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return fmt.Errorf("cannot stop %s: %w", unit, err)
	}
	return nil
}

// Reload queues the reload of a service if that is active. It does not wait: a caller that is
// ordered before the service would wait for itself.
func (j Jobs) Reload(ctx context.Context, unit string) error {
	list, err := j.t.list(ctx, []string{unit})
	if err != nil || list[0].unit.Active != "active" {
		return err
	}
	if err := j.queueAgain(ctx, "ReloadUnit", unit, "replace"); err != nil {
		return fmt.Errorf("cannot reload %s: %w", unit, err)
	}
	return nil
}

// TryRestart queues the restart of a unit if that is active, and does not wait. It fails if a
// conflicting job is queued.
func (j Jobs) TryRestart(ctx context.Context, unit string) error {
	if err := j.t.once(ctx, nil, managerPath, managerInterface+".TryRestartUnit", unit, "fail"); err != nil {
		return fmt.Errorf("cannot restart %s: %w", unit, err)
	}
	return nil
}

// ResetFailed clears a unit's failed state and the count of its starts, which
// StartLimitBurst= limits. A unit that is not loaded has neither.
func (j Jobs) ResetFailed(ctx context.Context, unit string) error {
	err := j.t.call(ctx, nil, managerPath, managerInterface+".ResetFailedUnit", unit)
	if err != nil && !isRemote(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return fmt.Errorf("cannot reset %s: %w", unit, err)
	}
	return nil
}

// ReloadOrRestart reloads a service, or starts it if it is not active, and waits until that is
// done. The service itself reports whether the reload succeeded.
func (j Jobs) ReloadOrRestart(ctx context.Context, unit string) error {
	return j.run(ctx, "ReloadOrRestartUnit", unit)
}

// RunOnce starts a oneshot and waits until its run is over. If a run is in progress, it waits
// for that one, which may have begun before the latest changes.
func (j Jobs) RunOnce(ctx context.Context, unit string) error {
	return j.run(ctx, "StartUnit", unit)
}

// run queues a job with the D-Bus method and waits until the job is over.
func (j Jobs) run(ctx context.Context, method, unit string) error {
	return j.runQueued(ctx, unit, func(job *dbus.ObjectPath) error {
		return j.t.once(ctx, job, managerPath, managerInterface+"."+method, unit, "replace")
	})
}

// runQueued calls queue, which queues a job, and waits until the job is over.
func (j Jobs) runQueued(ctx context.Context, unit string, queue func(job *dbus.ObjectPath) error) error {
	err := j.await(ctx, unit, queue, func(result string, _ bool) (bool, error) {
		switch result {
		case "done", "skipped": // skipped: a condition is not met
			return true, nil
		case "":
			list, err := j.t.list(ctx, []string{unit})
			return err == nil && list[0].unit.Settled(), err
		}
		return true, fmt.Errorf("its job ended with %q", result)
	})
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", unit, err)
	}
	return nil
}

// await calls queue, which has PID 1 queue a job of the unit, and waits for its end. If the
// connection is lost during queue, done decides by the state of the unit.
func (j Jobs) await(ctx context.Context, unit string, queue func(job *dbus.ObjectPath) error, done func(result string, certain bool) (bool, error)) error {
	sub, err := j.t.listen(ctx, unitRules(unit))
	if err != nil {
		return err
	}
	defer j.t.signals.remove(sub)
	sub.follow(unit)
	sub.onlySettled()
	var job dbus.ObjectPath
	if err := queue(&job); err != nil && !lost(err) {
		return err
	}
	return sub.awaitJob(ctx, job, done)
}
