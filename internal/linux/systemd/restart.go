package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Reasons why systemd cannot restart a unit.
var (
	ErrNotFound = errors.New("the unit is not installed")
	ErrMasked   = errors.New("the unit is masked")
	ErrCyclic   = errors.New("units of the transaction wait for each other")
)

// JobError is the error of a restart in which the unit did not run.
type JobError struct {
	Unit   string
	Result string // JobRemoved's: "canceled", "timeout", "dependency", "skipped", "done"; "" if unknown
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
		return fmt.Sprintf("%s did not run, and systemd was re-executed before it reported the reason", e.Unit)
	}
	return fmt.Sprintf("%s did not run (job result %q)", e.Unit, e.Result)
}

// Restart restarts the unit once, waits until that run is over, and returns the unit's state then.
// A run that failed is no error; the unit is "failed" then. It is an error if the unit did not run
// ([ErrNotFound], [ErrMasked], [JobError]), or if ctx ended first; then the job continues. If there
// is an error, the returned unit lacks the properties of a service. If the unit is active, only
// Result is read.
//
// The state of the unit decides, and the signal of the job's end is only a hint: a
// daemon-reexec breaks the call and loses the signal, and the job continues.
func (j Jobs) Restart(ctx context.Context, name string) (Unit, error) {
	sub, err := j.followRun(ctx, name)
	if err != nil {
		return Unit{Name: name}, err
	}
	defer j.t.signals.remove(sub)
	before, err := j.readRun(ctx, name)
	if err != nil {
		return before, err
	}
	job, err := j.queueRestart(ctx, before)
	if err != nil {
		return before, cannotRestart(name, err)
	}
	now, err := j.awaitRun(ctx, before, job, sub)
	if err != nil {
		return now, err
	}
	if now.Active == "active" { // no more calls: PID 1 starts the clients now
		now.Result = "success"
		return now, nil
	}
	err = Units(j).read(ctx, &now, All)
	return now, err
}

// followRun subscribes to the changes of a oneshot that settle it.
func (j Jobs) followRun(ctx context.Context, name string) (*subscription, error) {
	sub, err := j.t.subscribe(ctx, unitRules(name))
	if err != nil {
		return nil, err
	}
	sub.follow(name)
	sub.onlySettled()
	return sub, nil
}

// awaitRun waits for the end of the requested run. It does not call PID 1 before a signal of
// the queued job: PID 1 stops the clients during that time.
func (j Jobs) awaitRun(ctx context.Context, before Unit, job dbus.ObjectPath, sub *subscription) (now Unit, err error) {
	now = before
	queued := job != ""
	var notRun error
	err = sub.await(ctx, func() (over bool, err error) {
		if queued {
			queued = false
			return false, nil
		}
		seen, err := j.readRun(ctx, before.Name)
		if err != nil {
			return false, err
		}
		now = seen
		over, notRun = runEnded(before, now, sub, job)
		return over, nil
	})
	if err != nil {
		return now, fmt.Errorf("the restart of %s is not over: %w", before.Name, err)
	}
	return now, notRun
}

// readRun reads the state and the invocation ID of one unit.
func (j Jobs) readRun(ctx context.Context, name string) (Unit, error) {
	units, err := Units(j).List(ctx, []string{name}, Run)
	if len(units) == 0 {
		return Unit{Name: name}, err
	}
	return units[0], err
}

// restartAttempts limits the calls of RestartUnit if PID 1 is replaced during each of them.
const restartAttempts = 3

// queueRestart requests the restart. If the reply is lost, the state of the unit shows whether
// PID 1 received the request, and it is repeated only if not. The job is "" if the reply is
// lost.
func (j Jobs) queueRestart(ctx context.Context, before Unit) (job dbus.ObjectPath, err error) {
	for range restartAttempts {
		err = j.t.once(ctx, &job, managerPath, managerInterface+".RestartUnit", before.Name, "replace")
		if err == nil || !lost(err) {
			return job, err
		}
		now, err := j.readRun(ctx, before.Name)
		if err != nil {
			return "", err
		}
		if now.Invocation != before.Invocation || before.Settled() && !now.Settled() {
			return "", nil
		}
	}
	return "", err
}

// runEnded reports whether the requested run is over. It returns an error if the unit did not run.
func runEnded(before, now Unit, sub *subscription, job dbus.ObjectPath) (bool, error) {
	result, certain := sub.result(job)
	// With Restart=, systemd starts the unit again about a second after a failed start. That
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
		return false, nil // the signal of the job's end has not arrived yet
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
