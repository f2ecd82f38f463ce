package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// connection is the connection to PID 1 of one pass. The first call that needs PID 1 makes it.
type connection struct {
	dial   func(context.Context) (PID1, error)
	notify Notifier
	log    *passLog
	limits Limits
	pid1   *PID1 // nil until PID 1 is needed
}

func (c *connection) open(ctx context.Context) (PID1, error) {
	if c.pid1 != nil {
		return *c.pid1, nil
	}
	p, err := c.dial(ctx)
	if err != nil {
		return PID1{}, err
	}
	c.pid1 = &p
	return p, nil
}

func (c *connection) close() {
	if c.pid1 == nil {
		return
	}
	if err := c.pid1.Close(); err != nil {
		c.log.Warn("cannot close the connection to systemd", "error", err)
	}
	c.pid1 = nil
}

// awaitRun waits for a run that another program began. A restart would kill it in the middle of a
// change and repeat it.
func (c *connection) awaitRun(ctx context.Context, busy func() (bool, error)) error {
	is, err := busy()
	if err != nil || !is {
		return err
	}
	p, err := c.open(ctx)
	if err != nil {
		return err
	}
	return c.settle(ctx, p.States)
}

// awaitStartedRun waits for a run that has begun but not yet taken its lock, or has just released
// it. It returns true if there was one: what was planned before is out of date.
func (c *connection) awaitStartedRun(ctx context.Context, u UnitReader) (waited bool, err error) {
	now, err := u.List(ctx, unitname.Runs(), systemd.All)
	if err != nil {
		return false, fmt.Errorf("cannot read the state of %s: %w", strings.Join(unitname.Runs(), " and "), err)
	}
	still := []string{"active", "inactive", "failed"}
	if !slices.ContainsFunc(now, func(run systemd.Unit) bool { return run.Job || !slices.Contains(still, run.Active) }) {
		return false, nil
	}
	return true, c.settle(ctx, u)
}

func (c *connection) settle(ctx context.Context, u UnitReader) error {
	ctx, cancel := c.limit(ctx, c.limits.Run)
	defer cancel()
	if _, err := u.Settle(ctx, unitname.Runs(), systemd.Unit.Settled); err != nil {
		return fmt.Errorf("waiting for the end of the current run failed: %w", err)
	}
	return nil
}

// limit sets a time limit, and extends systemd's own for a start or reload of the daemon.
func (c *connection) limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if err := c.notify.ExtendTimeout(d); err != nil {
		c.log.Warn(err.Error())
	}
	return context.WithTimeout(ctx, d)
}

// clearCounters clears the start counters of the units. Each restart counts against their start
// limits, and systemd leaves a unit that reaches its limit failed.
func (c *connection) clearCounters(ctx context.Context, u UnitController, units []string) {
	for _, unit := range units {
		if err := u.ResetFailed(ctx, unit); err != nil {
			c.log.Warn("cannot reset the start counter", "unit", unit, "error", err)
		}
	}
}
