package systemd

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestStartJob(t *testing.T) {
	p := startPID1(t)
	c, ctx := p.dial()
	j := Job{Name: "one.service", Description: "One", Directory: "/", Command: []string{"/bin/true", "$1"}, Then: []string{"/bin/echo", "over"}, File: "/run/log"}
	if err := c.Transients.StartJob(ctx, j); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	got := fmt.Sprint(p.props[j.Name]["ExecStart"], p.props[j.Name]["ExecStopPost"], p.props[j.Name]["Type"])
	p.mu.Unlock()
	if want := "[[/bin/true [/bin/true $$1] false]] [[/bin/echo [/bin/echo over] false]]exec"; got != want {
		t.Errorf("the unit has %s, want %s", got, want)
	}
	if err := c.Transients.StartJob(ctx, j); !errors.Is(err, ErrThere) {
		t.Errorf("second job: %v", err)
	}
	ended := func(code, status int32) []execution {
		return []execution{{Path: "/bin/true", Ended: 1, PID: 7, Code: code, Status: status}}
	}
	p.property(j.Name, "Result", "exit-code")
	p.property(j.Name, "ExecStart", ended(exited, 2))
	p.property(j.Name, "ExecStopPost", ended(exited, 0))
	var steps sync.Once
	p.afterList(func(int, []string) {
		steps.Do(func() {
			p.signal(j.Name, "deactivating/stop-post", "01")
			p.signal(j.Name, "failed/failed", "01")
		})
	})
	failed, err := c.Transients.AwaitJob(ctx, j.Name)
	if err != nil || failed != (Command{Directive: "ExecStart", Path: "/bin/true", Status: 2}) {
		t.Errorf("%+v, %v", failed, err)
	}
	if err := c.Jobs.ResetFailed(ctx, j.Name); err != nil {
		t.Error(err)
	}
	if err := c.Jobs.ResetFailed(ctx, "another.service"); err != nil {
		t.Error(err)
	}
}
