package apply

import (
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
