package systemd

import (
	"context"
	"errors"

	"github.com/godbus/dbus/v5"
)

// Change is a run of a oneshot around which some units are restarted. Each unit is ordered after
// the oneshot. The oneshot is PartOf= the gate, which it requires and starts after.
type Change struct {
	Gate  string   // a oneshot that does not end before the caller has queued all jobs; "" if First are enough
	Run   string   // the oneshot
	Units []string // stopped before the run and started after it, if they are active
	First []string // the same, but their jobs are queued before that of the run; for Run without a gate
}

// RestartAround queues the jobs of a change and waits until the run is over. It calls queued once,
// when PID 1 has all jobs; the caller then lets the gate end. If units cannot be restarted, missed
// names them, and the run follows despite that. The returned unit and error are those of the
// oneshot, as returned by [Jobs.Restart].
func (j Jobs) RestartAround(ctx context.Context, c Change, queued func(missed error)) (Unit, error) {
	sub, err := j.followRun(ctx, c.Run)
	if err != nil {
		queued(nil)
		return Unit{Name: c.Run}, err
	}
	defer j.t.signals.remove(sub)
	before, job, missed, err := j.queueJobs(ctx, c)
	queued(missed)
	if err != nil {
		return before, err
	}
	now, err := j.awaitRun(ctx, before, job, sub)
	if err != nil {
		return now, err
	}
	err = Units(j).read(ctx, &now, All)
	return now, err
}

// queueJobs queues the restart of the gate, which includes that of the oneshot, and those of the
// units. It returns the state of the oneshot before the restart.
// job is that of the oneshot; "" if the gate has it.
func (j Jobs) queueJobs(ctx context.Context, c Change) (before Unit, job dbus.ObjectPath, missed, err error) {
	before, err = j.readRun(ctx, c.Run)
	if err != nil {
		return before, "", nil, err
	}
	for _, unit := range c.First {
		if err := j.queueAgain(ctx, "TryRestartUnit", unit, "replace"); err != nil {
			missed = errors.Join(missed, cannotRestart(unit, err))
		}
	}
	if c.Gate == "" {
		if job, err = j.queueRestart(ctx, before); err != nil {
			return before, "", missed, cannotRestart(c.Run, err)
		}
		return before, job, missed, nil
	}
	gate, err := j.readRun(ctx, c.Gate)
	if err != nil {
		return before, "", nil, err
	}
	if _, err := j.queueRestart(ctx, gate); err != nil {
		return before, "", nil, cannotRestart(c.Gate, err)
	}
	for _, unit := range c.Units {
		if err := j.queueAgain(ctx, "TryRestartUnit", unit, "replace"); err != nil {
			missed = errors.Join(missed, cannotRestart(unit, err))
		}
	}
	return before, "", missed, nil
}
