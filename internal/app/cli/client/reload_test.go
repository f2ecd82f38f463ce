package client

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/partition"
)

// during returns a host on which a process is in a run with a step.
func during(t *testing.T, pid int, step runstate.Step) (*host.Host, runstate.Run) {
	t.Helper()
	h := &host.Host{Root: t.TempDir()}
	if err := os.Symlink("/proc", h.Path("proc")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	run := runstate.Run{PID: pid, Profile: "cpx-nps4", Result: runstate.Running, Steps: []runstate.Step{step}}
	if err := runstate.RunIn(h.Runtime()).Write(run); err != nil {
		t.Fatal(err)
	}
	return h, run
}

func TestAwaitReload_NoReload(t *testing.T) {
	now := time.Now()
	const nobody = 1<<31 - 1
	for name, test := range map[string]struct {
		pid  int
		step runstate.Step
	}{
		"not begun": {os.Getpid(), runstate.Step{Step: partition.Step{Kind: partition.ReloadDriver}}},
		"finished":  {os.Getpid(), runstate.Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: now, Finished: now}},
		"another":   {os.Getpid(), runstate.Step{Step: partition.Step{Kind: partition.SwitchCompute}, Started: now}},
		"killed":    {nobody, runstate.Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: now}},
	} {
		h, _ := during(t, test.pid, test.step)
		if err := AwaitReload(t.Context(), h, func(text string) { t.Errorf("%s: %s", name, text) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAwaitReload_Ends(t *testing.T) {
	h, run := during(t, os.Getpid(), runstate.Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: time.Now()})
	notes := 0
	err := AwaitReload(t.Context(), h, func(text string) {
		if notes++; !strings.Contains(text, "cpx-nps4") {
			t.Errorf("note %q", text)
		}
		run.Steps[0].Finished = time.Now()
		if err := runstate.RunIn(h.Runtime()).Write(run); err != nil {
			t.Error(err)
		}
	})
	if err != nil || notes != 1 {
		t.Errorf("%v after %d notes", err, notes)
	}
}

func TestAwaitReload_Interrupted(t *testing.T) {
	h, _ := during(t, os.Getpid(), runstate.Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: time.Now()})
	ctx, cancel := context.WithCancel(t.Context())
	if err := AwaitReload(ctx, h, func(string) { cancel() }); exitcode.Code(err) != exitcode.Transient {
		t.Errorf("%v, exit status %d", err, exitcode.Code(err))
	}
}
