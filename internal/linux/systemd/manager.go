package systemd

import (
	"context"
	"fmt"
	"time"
)

// Manager is PID 1 itself, org.freedesktop.systemd1.Manager.
type Manager struct{ t *transport }

// Reload makes PID 1 run the generators and load the unit files again, as `systemctl
// daemon-reload` does, and waits until that is done.
func (m Manager) Reload(ctx context.Context) error {
	if err := m.t.call(ctx, nil, managerPath, managerInterface+".Reload"); err != nil {
		return fmt.Errorf("cannot reload systemd: %w", err)
	}
	return nil
}

// Reloads returns a channel, of capacity 1, that gets a value when a reload of PID 1 begins or
// ends, after a daemon-reexec, and when such a signal may have been lost. PID 1 answers a call
// that is made during a reload after the reload. stop ends that.
func (m Manager) Reloads(ctx context.Context) (reloaded <-chan struct{}, stop func(), err error) {
	sub, err := m.t.subscribe(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	sub.follow("") // no unit: the private socket has the signals of all units
	return sub.wake, func() { m.t.signals.remove(sub) }, nil
}

// WatchRemoved returns a channel, of capacity 1, that gets a value when a job has ended or a
// unit was unloaded, as a scope is after its last process, or when such a signal may have been
// lost. stop ends that.
func (m Manager) WatchRemoved(ctx context.Context) (removed <-chan struct{}, stop func(), err error) {
	sub, err := m.t.subscribe(ctx, unitRemovedRules())
	if err != nil {
		return nil, nil, err
	}
	return sub.wake, func() { m.t.signals.remove(sub) }, nil
}

// LoadedAt returns when PID 1 last loaded its units, in µs of CLOCK_MONOTONIC.
func (m Manager) LoadedAt(ctx context.Context) (at uint64, err error) {
	err = m.t.managerProperty(ctx, "UnitsLoadTimestampMonotonic", &at)
	return at, err
}

// UserspaceStart returns when PID 1 started: at boot, or at the last soft-reboot.
func (m Manager) UserspaceStart(ctx context.Context) (time.Time, error) {
	var microseconds uint64
	if err := m.t.managerProperty(ctx, "UserspaceTimestamp", &microseconds); err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(int64(microseconds)), nil
}
