package apply

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// If the driver has no room next to an instance in use, the run is undone, and its error names the user.
// The next run, which has stopped that user, keeps no instance of the GPU.
func TestRun_NoRoomNextToUser(t *testing.T) {
	program, library := buildNVML(t)
	b := newMIGBench(t, program, library)
	opt := Options{Rollback: true, DeviceTimeout: 10 * time.Second, StepTimeout: 30 * time.Second, ReloadTimeout: 10 * time.Second}
	var last *runstate.Run
	run := func(to string) runstate.Run {
		p := partition.Profile{Name: "test", Groups: []partition.Group{{MIG: geometry(to), Rest: true}}}
		rec := NewRecorder(runstate.Run{ID: "test", NoRoom: runstate.NoRoomSince(last, "")}, slog.New(slog.DiscardHandler), func(runstate.Run) {})
		r := Run(t.Context(), nodeOf(b.node, b.node.Drivers()), p, opt, rec)
		last = &r
		return r
	}
	if r := run("3g.40gb 1g.10gb"); r.Result != runstate.Applied {
		t.Fatalf("before: %s, %+v", r.Result, r.Error)
	}
	opt.Users = runstate.InstanceUsers{aside: {4: {{Name: "vllm.service"}}}}
	opt.Continuing = []string{"vllm.service"}
	b.update(t, func(s *standin.State) { s.Knobs = []string{"fail " + create + " 23 0 1 " + aside} })
	r := run(oneKept)
	trial{result: runstate.RolledBack, passing: true, errText: "vllm.service"}.judge(t, r)
	if got := b.shapes(t); got != was {
		t.Errorf("the GPUs are %s, want %s", got, was)
	}
	if got := slices.Collect(maps.Keys(r.NoRoom)); !slices.Equal(got, []partition.Address{aside}) || !strings.Contains(r.Error.Hint, "restarts") {
		t.Errorf("GPUs without room: %v, want %s; hint %q", got, aside, r.Error.Hint)
	}
	opt.Continuing = nil
	if r = run(oneKept); r.Result != runstate.Applied {
		t.Errorf("second run: %s, %+v", r.Result, r.Error)
	}
	if got := b.shapes(t); got != cleared {
		t.Errorf("the GPUs are %s, want %s", got, cleared)
	}
	if left := runstate.NoRoomSince(last, ""); len(left) > 0 {
		t.Errorf("GPUs without room after the change: %v, want none", left)
	}
}
