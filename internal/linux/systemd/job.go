package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/godbus/dbus/v5"
)

// Job is a service that there is as long as a command runs.
type Job struct {
	Name        string // "….service"
	Description string
	Directory   string
	Command     []string // with the program's path
	// Then is executed when the command has ended, however it did, and when nobody is
	// left who asked for it: PID 1 remembers it.
	Then []string
	File string // to which goes what both write
}

// ErrThere says that there is a unit of that name.
var ErrThere = errors.New("it is there already")

// StartJob returns when the command runs. What is left of one that failed before is
// cleared away.
func (c *Conn) StartJob(ctx context.Context, j Job) error {
	if err := c.Forget(ctx, j.Name); err != nil {
		return fmt.Errorf("cannot start %s: %w", j.Name, err)
	}
	ear, err := c.listen(ctx, unitRules(j.Name))
	if err != nil {
		return err
	}
	defer c.hub.forget(ear)
	ear.follow(j.Name)
	var job dbus.ObjectPath
	err = c.transient(ctx, &job, j.Name, j.properties())
	if isRemote(err, "org.freedesktop.systemd1.UnitExists") {
		err = ErrThere
	}
	if err != nil && !lost(err) {
		return fmt.Errorf("cannot start %s: %w", j.Name, err)
	}
	return c.scopeUp(ctx, j.Name, job, ear)
}

func (j Job) properties() []property {
	return variants([]Property{
		{"Description", j.Description}, {"Type", "exec"}, {"WorkingDirectory", j.Directory},
		{"ExecStart", []command{literal(j.Command)}},
		{"ExecStopPost", []command{literal(j.Then)}},
		{"StandardOutputFileToAppend", j.File}, {"StandardErrorFileToAppend", j.File},
		// What is done then knows by itself when it is over.
		{"TimeoutStopUSec", uint64(math.MaxUint64)},
	})
}

// Forget clears away what is left of a unit that failed.
func (c *Conn) Forget(ctx context.Context, name string) error {
	err := c.call(ctx, nil, managerPath, managerInterface+".ResetFailedUnit", name)
	if err != nil && !isRemote(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return err
	}
	return nil
}

// AwaitJob returns how a job of [Conn.StartJob] has ended when it is over, with what was
// to be done then: its exit status, and which command failed.
func (c *Conn) AwaitJob(ctx context.Context, name string) (Command, error) {
	had := map[string]string{name: "active"}
	for {
		err := c.Changed(ctx, had)
		if err != nil {
			return Command{}, err
		}
		list, err := c.list(ctx, []string{name})
		if err != nil {
			return Command{}, err
		}
		if now := list[0].unit.Active; now != "inactive" && now != "failed" {
			had[name] = now
			continue
		}
		units, err := c.Units(ctx, []string{name})
		if err != nil {
			return Command{}, err
		}
		return units[0].Failed, nil
	}
}
