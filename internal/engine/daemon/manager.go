package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// manager is PID 1 for one pass. It connects when PID 1 is needed first.
type manager struct {
	dial   func(context.Context) (*Units, error)
	notify Notifier
	log    *passLog
	limits Limits
	units  *Units // nil until PID 1 is needed
}

func (m *manager) connect(ctx context.Context) (*Units, error) {
	if m.units != nil {
		return m.units, nil
	}
	u, err := m.dial(ctx)
	m.units = u
	return u, err
}

func (m *manager) close() {
	if m.units == nil {
		return
	}
	if err := m.units.Close(); err != nil {
		m.log.Warn("cannot close the connection to systemd", "error", err)
	}
	m.units = nil
}

// awaitRun waits for a run that another program began. A restart in its middle would end it
// half-way and do it again.
func (m *manager) awaitRun(ctx context.Context, busy func() (bool, error)) error {
	is, err := busy()
	if err != nil || !is {
		return err
	}
	u, err := m.connect(ctx)
	if err != nil {
		return err
	}
	return m.settle(ctx, u)
}

// awaitStartedRun waits for a run that has begun but not yet taken its lock, or has just released
// it. It returns true if there was one: what was planned before is out of date.
func (m *manager) awaitStartedRun(ctx context.Context, u *Units) (waited bool, err error) {
	now, err := u.List(ctx, []string{unitname.Apply}, systemd.All)
	if err != nil {
		return false, fmt.Errorf("cannot read the state of %s: %w", unitname.Apply, err)
	}
	still := []string{"active", "inactive", "failed"}
	if len(now) == 0 || slices.Contains(still, now[0].Active) && !now[0].Job {
		return false, nil
	}
	return true, m.settle(ctx, u)
}

func (m *manager) settle(ctx context.Context, u *Units) error {
	ctx, cancel := m.limit(ctx, m.limits.Run)
	defer cancel()
	if _, err := u.Settle(ctx, []string{unitname.Apply}); err != nil {
		return fmt.Errorf("a run is under way and does not end: %w", err)
	}
	return nil
}

// limit sets a time limit, and extends systemd's own for a start or reload of the daemon.
func (m *manager) limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if err := m.notify.ExtendTimeout(d); err != nil {
		m.log.Warn(err.Error())
	}
	return context.WithTimeout(ctx, d)
}

// clearCounters clears the start counters of the units. Each restart counts against their start
// limits, and systemd leaves a unit that reaches its limit failed.
func (m *manager) clearCounters(ctx context.Context, u *Units, units []string) {
	for _, unit := range units {
		if err := u.ResetFailed(ctx, unit); err != nil {
			m.log.Warn("cannot clear the start counter", "unit", unit, "error", err)
		}
	}
}

func ids(units []systemd.Unit) []string {
	out := make([]string, len(units))
	for i, u := range units {
		out[i] = u.ID
	}
	return out
}
