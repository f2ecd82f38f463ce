package systemd

import (
	"fmt"
	"strings"
	"testing"
)

func TestStartService(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	s := Service{Name: "one.service", Description: "One", Command: []string{"/bin/echo", "costs $HOME"}, Environment: []string{"A=b"}}
	if err := c.Transients.StartService(ctx, s); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	got := fmt.Sprint(p.props[s.Name]["ExecStart"], p.props[s.Name]["Environment"], p.props[s.Name]["Type"])
	p.mu.Unlock()
	if want := "[[/bin/echo [/bin/echo costs $$HOME] false]] [A=b]oneshot"; got != want {
		t.Errorf("the unit has %s, want %s", got, want)
	}
	if err := c.Transients.StartService(ctx, s); err == nil || !strings.HasPrefix(err.Error(), "cannot start one.service: ") {
		t.Errorf("second unit with that name: %v", err)
	}
}

func TestRunService_WaitsForItsJob(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	s := Service{Name: "one.service", Command: []string{"/bin/true"}, Extra: []Property{{"ProtectSystem", "strict"}}}
	if err := c.Transients.RunService(ctx, s); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := p.props[s.Name]["ProtectSystem"]; got != "strict" {
		t.Errorf("ProtectSystem=%v, want strict", got)
	}
}

func TestReload_ActiveServicesOnly(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	for state, want := range map[string]int{"inactive/dead": 0, "activating/start": 0, "active/running": 1} {
		p.set("slurmd.service", state, "01")
		before := p.count(&p.restarts)
		if err := c.Jobs.Reload(ctx, "slurmd.service"); err != nil {
			t.Error(err)
		}
		if got := p.count(&p.restarts) - before; got != want {
			t.Errorf("%s: reloaded %d times, want %d", state, got, want)
		}
	}
}
