package systemd

import (
	"fmt"
	"slices"
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
