package apply

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// A GPU that is added to a running host gets the profile. The others are not changed.
func TestRun_HotPlug(t *testing.T) {
	var mu sync.Mutex
	var seen []sim.Uevent
	b := newBenchWith(t, "mi300x-8", sim.Options{Uevent: func(u sim.Uevent) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, u)
	}})
	inject := func(f sim.Fault) {
		t.Helper()
		if err := b.sim.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	fingerprint := func() string {
		t.Helper()
		devices, err := b.node.Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return gpu.Fingerprint(devices)
	}
	inject(sim.Fault{Op: sim.OpNow, GPU: third, Vanish: true})
	cpx := profile(partition.CPX, partition.NPS1)
	if run := b.run(cpx); run.Result != runstate.Applied || b.modes() != "7 CPX/NPS1" {
		t.Fatalf("without the GPU: %s, %s", run.Result, b.modes())
	}
	before, writes := fingerprint(), b.sim.State().ComputeWrites
	mu.Lock()
	seen = nil
	mu.Unlock()

	inject(sim.Fault{Op: sim.OpNow, GPU: third, Appear: true})
	mu.Lock()
	relevant := func(u sim.Uevent) bool {
		return b.node.Watch().RelevantEvent(u.Subsystem, strings.TrimPrefix(u.Path, "/sys"))
	}
	if len(seen) == 0 || !slices.ContainsFunc(seen, relevant) {
		t.Errorf("no event for the daemon among %v", seen)
	}
	mu.Unlock()
	if fingerprint() == before {
		t.Error("the fingerprint of the GPUs is that without the GPU")
	}
	if got := b.modes(); got != "2 CPX/NPS1 1 SPX/NPS1 5 CPX/NPS1" {
		t.Fatalf("with the GPU: %s", got)
	}
	run := b.run(cpx)
	if run.Result != runstate.Applied || b.modes() != "8 CPX/NPS1" {
		t.Errorf("after the run: %s, %+v, %s", run.Result, run.Error, b.modes())
	}
	if n := b.sim.State().ComputeWrites - writes; n != 1 {
		t.Errorf("%d writes of a compute mode, want one", n)
	}
}

// The report names a GPU that disappeared, so that the daemon can see whether it has returned.
func TestRun_NamesGPUThatDisappeared(t *testing.T) {
	b := newBench(t, "mi300x-8")
	b.inject(at(third, times(once, sim.Fault{Op: sim.OpCompute, Vanish: true})))
	if run := b.run(profile(partition.CPX, partition.NPS1)); run.Error == nil || run.Error.Gone != third {
		t.Errorf("%s, %+v; want an error for %s", run.Result, run.Error, third)
	}
}

// afterFirst is a node on which something happens after its first steps, before it is observed again.
type afterFirst struct {
	*gpu.Node
	then func()
}

func (n *afterFirst) Execute(ctx context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	err := n.Node.Execute(ctx, steps, tell)
	if n.then != nil {
		n.then()
		n.then = nil
	}
	return err
}

// A GPU that is bound again after its switch has the driver's default mode. The report names it, since a retry
// succeeds. A switch without effect is another failure.
func TestRun_NamesGPUBoundAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault sim.Fault // in the first change
		then  []sim.Fault
		gone  partition.Address
		want  string // a part of the error
	}{
		{name: "removed and found again", then: []sim.Fault{{Vanish: true}, {Appear: true}}, gone: third, want: "it was removed and found again"},
		{name: "removed", then: []sim.Fault{{Vanish: true}}, gone: third, want: "is gone"},
		{name: "removed and found again before the switch is read back", fault: sim.Fault{Op: sim.OpCompute, Wrong: true}, then: []sim.Fault{{Vanish: true}, {Appear: true}}, gone: third, want: "reads SPX"},
		{name: "no effect", fault: sim.Fault{Op: sim.OpCompute, Wrong: true}, want: "reads SPX"},
		{name: "another GPU", fault: sim.Fault{Op: sim.OpCompute, Wrong: true}, then: []sim.Fault{{GPU: "0000:05:00.0", Vanish: true}, {GPU: "0000:05:00.0", Appear: true}}, want: "reads SPX"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, "mi300x-8")
			if tt.fault.Op != "" {
				b.inject(at(third, times(once, tt.fault)))
			}
			node := &afterFirst{Node: b.node, then: func() {
				for _, f := range tt.then {
					f.Op, f.GPU = sim.OpNow, cmp.Or(f.GPU, third)
					if err := b.sim.Inject(f); err != nil {
						t.Error(err)
					}
				}
			}}
			run := Run(t.Context(), nodeOf(node, b.node.Drivers()), profile(partition.CPX, partition.NPS1), b.opt, b.recorder())
			if run.Error == nil || run.Error.Gone != tt.gone || !strings.Contains(run.Error.Text, tt.want) {
				t.Fatalf("%s, error %+v; want %q for %q", run.Result, run.Error, tt.want, tt.gone)
			}
			if got := b.modes(); !strings.Contains(got, string(partition.SPX)) || strings.Contains(got, "CPX") {
				t.Errorf("after the undo: %s", got)
			}
			if run := b.run(profile(partition.CPX, partition.NPS1)); run.Error != nil {
				t.Errorf("the next run: %s, %+v", run.Result, run.Error)
			}
		})
	}
}
