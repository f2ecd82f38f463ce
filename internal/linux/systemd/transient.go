package systemd

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"

	"dcm/internal/sanitize"
)

// Transients starts transient units: scopes for running processes, and services for commands.
type Transients struct{ t *transport }

// Property is a property of a unit, with the name that StartTransientUnit takes.
type Property struct {
	Name  string
	Value any
}

type property struct {
	Name  string
	Value dbus.Variant
}

func variants(list []Property) []property {
	out := make([]property, len(list))
	for i, p := range list {
		out[i] = property{p.Name, dbus.MakeVariant(p.Value)}
	}
	return out
}

// auxiliary is the list of additional units that StartTransientUnit can create.
type auxiliary []struct {
	Name       string
	Properties []property
}

// queue creates a unit and queues its start.
func (r Transients) queue(ctx context.Context, job *dbus.ObjectPath, name string, properties []property) error {
	return r.t.once(ctx, job, managerPath, managerInterface+".StartTransientUnit", name, "fail", properties, auxiliary{})
}

// ErrNoProcess means that PID 1 started a scope without the process: the process has exited, or PID
// 1 has lost its number in a daemon-reexec.
var ErrNoProcess = errors.New("systemd has moved no process into it")

// ErrDependency means that a unit that the started one requires has failed to start.
var ErrDependency = errors.New("a unit that it requires has failed")

// ErrConflict means that a unit that the new one requires is being stopped.
var ErrConflict = errors.New("a unit that it requires is being stopped")

// start creates and starts a unit by queue, and waits until it is active.
func (r Transients) start(ctx context.Context, name string, queue func(job *dbus.ObjectPath) error) error {
	if err := Jobs(r).await(ctx, name, queue, r.startDone(ctx, name)); err != nil {
		if isRemote(err, "org.freedesktop.systemd1.TransactionIsDestructive") {
			err = fmt.Errorf("%w: %w", ErrConflict, err)
		}
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	return nil
}

// startDone reports whether the start of a transient unit is over. It returns an error if the start
// failed.
func (r Transients) startDone(ctx context.Context, name string) func(result string, certain bool) (bool, error) {
	return func(result string, certain bool) (bool, error) {
		list, err := r.t.list(ctx, []string{name})
		if err != nil {
			return false, err
		}
		switch u := list[0].unit; {
		case u.Active == "active" && !u.Job:
			return true, nil
		case result == "dependency":
			return true, ErrDependency
		case result != "" && result != "done":
			return true, fmt.Errorf("%w: its job ended with %q", ErrNoProcess, sanitize.Text(result))
		case result == "done", !certain && u.Settled():
			return true, fmt.Errorf("%w: it is %s", ErrNoProcess, u.Active)
		}
		return false, nil
	}
}
