package systemd

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/sanitize"
)

// Command is the result of a service's command in the last run.
type Command struct {
	Directive string // "ExecStartPre"
	Path      string // without arguments, which may be secret
	Signal    bool   // Status is the number of a signal
	Status    int
}

func (c Command) String() string {
	how := "exit status"
	if c.Signal {
		how = "killed by signal"
	}
	return fmt.Sprintf("%s=%s: %s %d", c.Directive, c.Path, how, c.Status)
}

// Before reports whether the command runs before ExecStart=, which is not run if it fails.
func (c Command) Before() bool { return slices.Contains(before(), c.Directive) }

func before() []string { return []string{"ExecCondition", "ExecStartPre"} }

// execution is a(sasbttttuii) of org.freedesktop.systemd1(5).
type execution struct {
	Path                           string
	Arguments                      []string
	Ignored                        bool
	Began, BeganAt, Ended, EndedAt uint64
	PID                            uint32
	Code, Status                   int32
}

const exited = 1 // CLD_EXITED

// forked reports whether the commands of a service of Type=forking have exited with success,
// so that only background processes are left.
func (c *Conn) forked(ctx context.Context, unit string) (bool, error) {
	var kind string
	if err := c.property(ctx, unit, serviceInterface, "Type", &kind); err != nil || kind != "forking" {
		return false, err
	}
	var all []execution
	if err := c.property(ctx, unit, serviceInterface, "ExecStart", &all); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(all, func(e execution) bool { return e.Code != exited || e.Status != 0 && !e.Ignored }), nil
}

// failed returns the first command that failed, in the order of execution. systemd drops the
// results when the service is started again.
func (c *Conn) failed(ctx context.Context, unit string) (Command, error) {
	for _, directive := range append(before(), "ExecStart", "ExecStartPost", "ExecStop", "ExecStopPost") {
		var all []execution
		if err := c.property(ctx, unit, serviceInterface, directive, &all); err != nil {
			return Command{}, err
		}
		for _, one := range all {
			over := one.PID != 0 && one.Ended != 0
			if bad := one.Code != exited || one.Status != 0; over && bad && !one.Ignored {
				return Command{directive, sanitize.Text(one.Path), one.Code != exited, int(one.Status)}, nil
			}
		}
	}
	return Command{}, nil
}
