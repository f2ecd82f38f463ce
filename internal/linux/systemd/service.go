package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Service is a transient unit that runs a command once, in a cgroup of its own.
type Service struct {
	Name        string // "….service"
	Description string
	Command     []string
	Environment []string // NAME=VALUE
	Extra       []Property
}

// command is a(sasb) of org.freedesktop.systemd1(5).
type command struct {
	Path      string
	Arguments []string
	Ignored   bool
}

// literal returns a command without expansion of variables.
func literal(given []string) command {
	words := make([]string, len(given))
	for i, word := range given {
		words[i] = strings.ReplaceAll(word, "$", "$$") // escapes a variable
	}
	return command{given[0], words, false}
}

// StartService runs a command and does not wait. The unit is unloaded when the command has
// ended.
func (r Transients) StartService(ctx context.Context, s Service) error {
	var job dbus.ObjectPath
	if err := r.queue(ctx, &job, s.Name, s.properties()); err != nil {
		return fmt.Errorf("cannot start %s: %w", s.Name, err)
	}
	return nil
}

// StartNotifying starts a command and returns when it has sent READY=1.
func (r Transients) StartNotifying(ctx context.Context, s Service) error {
	return r.start(ctx, s.Name, func(job *dbus.ObjectPath) error { return r.queue(ctx, job, s.Name, s.propertiesOf("notify")) })
}

// RunService runs a command and waits for its end. It returns an error if the command fails.
func (r Transients) RunService(ctx context.Context, s Service) error {
	return Jobs(r).runQueued(ctx, s.Name, func(job *dbus.ObjectPath) error { return r.queue(ctx, job, s.Name, s.properties()) })
}

func (s Service) properties() []property { return s.propertiesOf("oneshot") }

// propertiesOf returns the properties of a service of a type.
func (s Service) propertiesOf(kind string) []property {
	return variants(append([]Property{
		{"Description", s.Description}, {"Type", kind}, {"Environment", s.Environment},
		{"ExecStart", []command{literal(s.Command)}}, {"CollectMode", "inactive-or-failed"},
	}, s.Extra...))
}

// Job is a transient service that runs one command.
type Job struct {
	Name        string // "….service"
	Description string
	Directory   string
	Command     []string // absolute path and arguments
	// Then is executed after Command, even if Command fails or the caller has exited
	// (ExecStopPost=).
	Then []string
	File string // receives the output of Command and Then
}

// ErrThere means that a unit of that name exists.
var ErrThere = errors.New("it is there already")

// StartJob starts the service and returns when the command runs. If an earlier service of that name
// has failed, StartJob resets it.
func (r Transients) StartJob(ctx context.Context, j Job) error {
	if err := Jobs(r).ResetFailed(ctx, j.Name); err != nil {
		return fmt.Errorf("cannot start %s: %w", j.Name, err)
	}
	return r.start(ctx, j.Name, func(job *dbus.ObjectPath) error {
		err := r.queue(ctx, job, j.Name, j.properties())
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
func (r Transients) AwaitJob(ctx context.Context, name string) (Command, error) {
	names := []string{name}
	err := Units(r).Await(ctx, names, func(units []Unit) bool { return slices.Contains([]string{"inactive", "failed"}, units[0].Active) })
	if err != nil {
		return Command{}, err
	}
	units, err := Units(r).List(ctx, names, All)
	if err != nil {
		return Command{}, err
	}
	return units[0].Failed, nil
}
