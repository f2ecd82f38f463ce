package systemd

import (
	"context"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestWatchRemoved_Scope(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	ended, stop, err := c.Manager.WatchRemoved(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	name := "dcm-lease-1000-4f1c09aa.scope"
	p.emit(managerPath, managerInterface+".UnitRemoved", name, unitPath(name))
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("no signal")
	}
}

func TestRunOnce_JobResults(t *testing.T) {
	for result, text := range map[string]string{"done": "", "skipped": "", "failed": `cannot start a.service: its job ended with "failed"`} {
		p := startPID1(t)
		p.set("a.service", "active/exited", "01")
		p.onRestart(func(name string, _ int) *dbus.Error {
			p.signal(name, "active/exited", "01")
			p.removed(name, result)
			return nil
		})
		c, ctx := p.dial()
		for _, do := range []func(context.Context, string) error{c.Jobs.RunOnce, c.Jobs.ReloadOrRestart} {
			err := do(ctx, "a.service")
			if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q", result, err, text)
			}
		}
	}
}
