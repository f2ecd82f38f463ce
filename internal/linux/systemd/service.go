package systemd

import (
	"context"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Service is a transient unit that runs a command once, in a cgroup of its own.
type Service struct {
	Name        string // "….service"
	Description string
	Command     []string
	Environment []string // NAME=VALUE
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
func (c *Conn) StartService(ctx context.Context, s Service) error {
	var job dbus.ObjectPath
	err := c.transient(ctx, &job, s.Name, variants([]Property{
		{"Description", s.Description}, {"Type", "oneshot"}, {"Environment", s.Environment},
		{"ExecStart", []command{literal(s.Command)}}, {"CollectMode", "inactive-or-failed"},
	}))
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", s.Name, err)
	}
	return nil
}

// ReloadUnit queues the reload of a service if that is active. It does not wait: a caller that
// is ordered before the service would wait for itself.
func (c *Conn) ReloadUnit(ctx context.Context, name string) error {
	units, err := c.List(ctx, []string{name}, States)
	if err != nil || units[0].Active != "active" {
		return err
	}
	if err := c.call(ctx, nil, managerPath, managerInterface+".ReloadUnit", name, "replace"); err != nil {
		return fmt.Errorf("cannot reload %s: %w", name, err)
	}
	return nil
}
