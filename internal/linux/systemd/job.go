package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/godbus/dbus/v5"
)

// Job is a transient service that runs one command.
type Job struct {
	Name        string // "….service"
	Description string
	Directory   string
	Command     []string // absolute path and arguments
	// Then is executed after the command, whatever its result, also if the caller has exited
	// (ExecStopPost=).
	Then []string
	File string // gets the output of both
}

// ErrThere says that a unit of that name exists.
var ErrThere = errors.New("it is there already")

// StartJob starts the service and returns when the command runs. It resets an earlier service
// of that name that failed.
func (c *Conn) StartJob(ctx context.Context, j Job) error {
	if err := c.ResetFailed(ctx, j.Name); err != nil {
		return fmt.Errorf("cannot start %s: %w", j.Name, err)
	}
	return c.startTransient(ctx, j.Name, func(job *dbus.ObjectPath) error {
		err := c.transient(ctx, job, j.Name, j.properties())
		if isRemote(err, "org.freedesktop.systemd1.UnitExists") {
			err = ErrThere
		}
		return err
	})
}

func (j Job) properties() []property {
	return variants([]Property{
		{"Description", j.Description}, {"Type", "exec"}, {"WorkingDirectory", j.Directory},
		{"ExecStart", []command{literal(j.Command)}},
		{"ExecStopPost", []command{literal(j.Then)}},
		{"StandardOutputFileToAppend", j.File}, {"StandardErrorFileToAppend", j.File},
		// Then has timeouts of its own.
		{"TimeoutStopUSec", uint64(math.MaxUint64)},
	})
}

// AwaitJob waits until a job of [Conn.StartJob] has ended, its Then included, and returns the
// command that failed.
func (c *Conn) AwaitJob(ctx context.Context, name string) (Command, error) {
	names := []string{name}
	err := c.Await(ctx, names, func(units []Unit) bool { return slices.Contains([]string{"inactive", "failed"}, units[0].Active) })
	if err != nil {
		return Command{}, err
	}
	units, err := c.Units(ctx, names)
	if err != nil {
		return Command{}, err
	}
	return units[0].Failed, nil
}
