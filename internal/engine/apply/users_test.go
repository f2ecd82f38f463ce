package apply

import (
	"log/slog"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// A run keeps the instances for whose users the daemon planned it, although the units are stopped.
func TestRun_InstanceUsers(t *testing.T) {
	program, library := buildNVML(t)
	b := newMIGBench(t, program, library)
	opt := Options{Rollback: true, DeviceTimeout: 10 * time.Second, StepTimeout: 30 * time.Second, ReloadTimeout: 10 * time.Second}
	run := func(to string) {
		t.Helper()
		p := partition.Profile{Name: "test", Groups: []partition.Group{{MIG: geometry(to), Rest: true}}}
		if run := Run(t.Context(), nodeOf(b.node, b.node.Drivers()), p, opt, NewRecorder(runstate.Run{ID: "test"}, slog.New(slog.DiscardHandler), func(runstate.Run) {})); run.Result != runstate.Applied {
			t.Fatalf("to %s: %s, %+v", to, run.Result, run.Error)
		}
	}
	run("1g.10gb 1g.10gb 1g.10gb")
	vllm := partition.InstanceUser{Name: "vllm.service"}
	opt.Users = runstate.InstanceUsers{aside: {1: {vllm}, 2: {vllm}}}
	run("3g.40gb 1g.10gb 1g.10gb")
	if got, want := b.shapes(t), "2 [1g.10gb@0 1g.10gb@1 3g.40gb@4] 1 [1g.10gb@1 1g.10gb@2 3g.40gb@4]"; got != want {
		t.Errorf("the GPUs are %s, want %s", got, want)
	}
}
