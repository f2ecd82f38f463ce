package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Why a unit cannot be restarted at all.
var (
	ErrNotFound = errors.New("the unit is not installed")
	ErrMasked   = errors.New("the unit is masked")
	ErrCyclic   = errors.New("units of the transaction wait for each other")
)

// JobError is the error of a restart in which the unit did not run.
type JobError struct {
	Unit   string
	Result string // JobRemoved's: "canceled", "timeout", "dependency", "skipped", "done"; "" where it is not known
}

func (e *JobError) Error() string {
	switch e.Result {
	case "canceled":
		return fmt.Sprintf("the restart of %s was canceled before it ran", e.Unit)
	case "timeout":
		return fmt.Sprintf("the restart of %s timed out before it ran", e.Unit)
	case "dependency":
		return fmt.Sprintf("%s was not restarted: a unit that it requires failed", e.Unit)
	case "done", "skipped":
		return fmt.Sprintf("%s did not run: one of its conditions is not met", e.Unit)
	case "":
		return fmt.Sprintf("%s did not run, and systemd was replaced before it said why", e.Unit)
	}
	return fmt.Sprintf("%s did not run: systemd says %q", e.Unit, e.Result)
}

// Restart has PID 1 restart the unit, once, and waits until that run is over. It
// returns the unit as it is then: a run that failed is no error but a Unit that
// is "failed". It is an error if there was no run (ErrNotFound, ErrMasked,
// JobError), or if ctx ended before it did; the job goes on then. With an error
// the unit is as far as it was read, without the properties of a service; of one that
// is active Result alone is there.
//
// What PID 1 knows of the unit decides, the signal of the job's end is only a
// hint: a daemon-reexec in the middle breaks the call and loses the signal, and
// the job goes on.
func (c *Conn) Restart(ctx context.Context, name string) (Unit, error) {
	ear, err := c.subscribe(ctx, unitRules(name))
	if err != nil {
		return Unit{Name: name}, err
	}
	defer c.hub.forget(ear)
	ear.follow(name)
	ear.rests()
	before, err := c.progress(ctx, name)
	if err != nil {
		return before, err
	}
	job, err := c.queue(ctx, before)
	if err != nil {
		return before, cannotRestart(name, err)
	}
	now, err := c.follow(ctx, before, job, ear)
	if err != nil {
		return now, err
	}
	if now.Active == "active" { // PID 1 starts the clients just then, and is asked no more
		now.Result = "success"
		return now, nil
	}
	return c.detail(ctx, now)
}

// follow waits for the end of the run that was asked for. PID 1 is not asked before it
// has told something of a job that it has queued: it stops the clients just then.
func (c *Conn) follow(ctx context.Context, before Unit, job dbus.ObjectPath, ear *subscription) (Unit, error) {
	now := before
	for queued := job != ""; ; queued = false {
		if !queued {
			seen, err := c.progress(ctx, before.Name)
			if err != nil {
				return now, notOver(before.Name, err)
			}
			now = seen
			if over, err := ended(before, now, ear, job); over {
				return now, err
			}
		}
		select {
		case <-ctx.Done():
			return now, notOver(before.Name, ctx.Err())
		case <-ear.wake:
		}
	}
}

func notOver(name string, err error) error {
	return fmt.Errorf("the restart of %s is not over: %w", name, err)
}

// attempts bounds how often the restart is asked for while PID 1 is replaced
// again and again under the question.
const attempts = 3

// queue asks for the restart. If the answer is lost, the unit tells whether the
// question was heard; only if nothing came of it is it asked again. The job is ""
// where PID 1 could not tell it.
func (c *Conn) queue(ctx context.Context, before Unit) (job dbus.ObjectPath, err error) {
	for range attempts {
		err = c.once(ctx, &job, managerPath, managerInterface+".RestartUnit", before.Name, "replace")
		if err == nil || !lost(err) {
			return job, err
		}
		now, err := c.progress(ctx, before.Name)
		if err != nil {
			return "", err
		}
		if now.Invocation != before.Invocation || before.Settled() && !now.Settled() {
			return "", nil
		}
	}
	return "", err
}

// ended judges whether the run that was asked for is over, and whether there was
// one.
func ended(before, now Unit, ear *subscription, job dbus.ObjectPath) (bool, error) {
	result, certain := ear.result(job)
	// By Restart= systemd tries a start that failed again, within a second or so; that
	// is another run.
	again := result == "failed"
	if !now.Settled() && !again {
		return false, nil
	}
	ran := now.Invocation != before.Invocation
	switch {
	case ran && (now.Active != "inactive" || result != "canceled"):
		return true, nil
	case result == "" && certain:
		return false, nil // its signal is on the way
	}
	return true, &JobError{now.Name, result}
}

func cannotRestart(name string, err error) error {
	switch {
	case isRemote(err, "org.freedesktop.systemd1.NoSuchUnit"):
		err = ErrNotFound
	case isRemote(err, "org.freedesktop.systemd1.UnitMasked"):
		err = ErrMasked
	case isRemote(err, "org.freedesktop.systemd1.TransactionOrderIsCyclic"):
		err = ErrCyclic
	}
	return fmt.Errorf("cannot restart %s: %w", name, err)
}
