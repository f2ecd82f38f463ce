package systemd

import (
	"context"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Service is a unit for one run of a command, beside whoever has it run.
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

// literal is a command in which nothing stands for anything else.
func literal(given []string) command {
	words := make([]string, len(given))
	for i, word := range given {
		words[i] = strings.ReplaceAll(word, "$", "$$") // it would be a variable
	}
	return command{given[0], words, false}
}

// StartService has PID 1 run a command, and does not wait for it. The unit is gone when
// it has ended.
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

// ReloadUnit has a service that is up read its settings anew, and does not wait for it:
// whoever is ordered before the service would wait for himself.
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
