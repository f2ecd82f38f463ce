package apply

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
	"dcm/internal/testkit/testdeadline"
)

// bench is a simulated node, the real gpu.Node on it, and every report published.
type bench struct {
	t    *testing.T
	sim  *simtest.Node
	node *gpu.Node
	opt  Options
	runs []runstate.Run
}

func newBench(t *testing.T, kind string) *bench { return newBenchWith(t, kind, sim.Options{}) }

func newBenchWith(t *testing.T, kind string, opts sim.Options) *bench {
	s := simtest.Start(t, kind, opts)
	return &bench{
		t: t, sim: s,
		node: over(s, amdgpu.BusyRetry(500*time.Millisecond, 5*time.Millisecond)),
		opt:  Options{Rollback: true, ReloadDriver: true, DeviceTimeout: 10 * time.Second, StepTimeout: 10 * time.Second, ReloadTimeout: 10 * time.Second},
	}
}

// over returns a node that reads the files of the simulated node as it reads those of a host.
func over(s *simtest.Node, opts ...amdgpu.Option) *gpu.Node {
	roots := gpu.Roots{Sys: s.Sys, Proc: "/proc", Dev: s.Dev}
	return gpu.Open(s.Sys, []gpu.Vendor{amdgpu.Open(roots, append(opts, amdgpu.Modprobe(s.Modprobe))...)}, gpu.PollInterval(5*time.Millisecond), gpu.ProbeTimeout(2*time.Second))
}

func (b *bench) run(p partition.Profile) runstate.Run {
	b.t.Helper()
	return b.runUntil(b.t.Context(), p)
}

func (b *bench) runUntil(ctx context.Context, p partition.Profile) runstate.Run {
	b.t.Helper()
	rec := NewRecorder(runstate.Run{ID: "test", Unloaded: b.opt.Load}, slog.New(slog.DiscardHandler), func(r runstate.Run) { b.runs = append(b.runs, r) })
	return Run(ctx, nodeOf(seeing{b.node, nil}, b.node.Drivers()), p, b.opt, rec)
}

// modes returns the modes of the simulated GPUs, without dcm's readers.
func (b *bench) modes() string {
	b.t.Helper()
	devices, err := b.node.Devices(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, g := range gpu.Partitionable(devices) {
		out = append(out, g.Mode().String())
	}
	return counted(out)
}

// counted shortens a list: "8 CPX/NPS4", "1 SPX/NPS1 7 CPX/NPS4".
func counted(all []string) string {
	var out []string
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j] == all[i] {
			j++
		}
		out = append(out, strings.Join([]string{itoa(j - i), all[i]}, " "))
		i = j
	}
	return strings.Join(out, " ")
}

func itoa(n int) string { return string(rune('0' + n)) }

func profile(c partition.Compute, m partition.Memory) partition.Profile {
	return partition.Profile{Name: "test", Compute: c, Memory: m}
}

const (
	first = partition.Address("0000:05:00.0")
	third = partition.Address("0000:46:00.0")
)

func TestRun(t *testing.T) {
	eachGPU := func(o *Options) { o.EachGPU = true }
	cpx, cpx4 := profile(partition.CPX, partition.NPS1), profile(partition.CPX, partition.NPS4)
	for _, test := range []struct {
		name    string
		profile partition.Profile
		faults  []sim.Fault
		options func(*Options)
		want    runstate.Result
		modes   string
		err     string // part of the report's error
		passing bool   // the error is transient
	}{
		{"nothing to do", profile(partition.SPX, partition.NPS1), nil, nil, runstate.Unchanged, "8 SPX/NPS1", "", false},
		{"a compute switch", cpx, nil, nil, runstate.Applied, "8 CPX/NPS1", "", false},
		{"a memory change with its reload", cpx4, nil, nil, runstate.Applied, "8 CPX/NPS4", "", false},
		{"a compute mode other than the driver's own after the reload", profile(partition.QPX, partition.NPS4), nil, nil, runstate.Applied, "8 QPX/NPS4", "", false},
		{"an unsupported mode changes nothing", profile(partition.TPX, partition.NPS1), nil, nil, runstate.Refused, "8 SPX/NPS1", "do not support TPX/NPS1", false},
		{"a memory change without leave to reload touches nothing", cpx4, nil, func(o *Options) { o.ReloadDriver = false }, runstate.Refused, "8 SPX/NPS1", "reload-driver is false", false},
		{"a failure after the reload goes back through another reload", profile(partition.QPX, partition.NPS4), []sim.Fault{{Op: sim.OpCompute, GPU: third, Errno: sim.Errno(syscall.EINVAL), Times: 1}}, nil, runstate.RolledBack, "8 SPX/NPS1", string(third), false},
		{"each GPU by itself, one fails", cpx, []sim.Fault{{Op: sim.OpCompute, GPU: third, Errno: sim.Errno(syscall.EINVAL), Times: 1}}, eachGPU, runstate.Partial, "2 CPX/NPS1 1 SPX/NPS1 5 CPX/NPS1", string(third), false},
		{"each GPU by itself, one fails after the switch", cpx, []sim.Fault{{Op: sim.OpCompute, GPU: third, Errno: sim.Errno(syscall.EIO), After: true, Times: 1}}, eachGPU, runstate.Partial, "2 CPX/NPS1 1 SPX/NPS1 5 CPX/NPS1", string(third), false},
		{"each GPU by itself, all fail", cpx, []sim.Fault{{Op: sim.OpCompute, Errno: sim.Errno(syscall.EINVAL), Times: 8}}, eachGPU, runstate.RolledBack, "8 SPX/NPS1", string(third), false},
		{"each GPU by itself, a reload", profile(partition.QPX, partition.NPS4), []sim.Fault{{Op: sim.OpCompute, GPU: third, Errno: sim.Errno(syscall.EINVAL), Times: 1}}, eachGPU, runstate.RolledBack, "8 SPX/NPS1", string(third), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "mi300x-8")
			for _, f := range test.faults {
				if err := b.sim.Inject(f); err != nil {
					t.Fatal(err)
				}
			}
			if test.options != nil {
				test.options(&b.opt)
			}
			run := b.run(test.profile)
			var text string
			var passing bool
			if run.Error != nil {
				text, passing = run.Error.Text, run.Error.Transient
			}
			if run.Result != test.want || passing != test.passing || (text != "") != (test.err != "") || !strings.Contains(text, test.err) {
				t.Errorf("result %s, error %q, transient %t; want %s, %q, %t", run.Result, text, passing, test.want, test.err, test.passing)
			}
			if got := b.modes(); got != test.modes {
				t.Errorf("modes are %s, want %s", got, test.modes)
			}
			var reported []string
			for _, g := range run.GPUs {
				reported = append(reported, g.Now.String())
			}
			if got := counted(reported); got != test.modes {
				t.Errorf("the report says %s, want %s", got, test.modes)
			}
		})
	}
}

func TestAHolderIsNamedAndNothingIsTouched(t *testing.T) {
	b := newBench(t, "mi300x-8")
	kfd, err := os.Open(filepath.Join(b.sim.Dev, "kfd"))
	if err != nil {
		t.Fatal(err)
	}
	defer kfd.Close()
	// The test itself is the holder; only another process's handle is seen.
	pid := holdOpen(t, kfd)
	run := b.run(profile(partition.CPX, partition.NPS4))
	if run.Result != runstate.Refused || run.Error == nil || !run.Error.Transient {
		t.Fatalf("result %s, error %v; want a transient refusal", run.Result, run.Error)
	}
	if len(run.Holders) != 1 || run.Holders[0].PID != pid || run.Holders[0].Command != "sleep" {
		t.Errorf("holders %v, want sleep with pid %d", run.Holders, pid)
	}
	if s := b.sim.State(); s.ComputeWrites+s.MemoryWrites+s.Unloads != 0 {
		t.Errorf("writes to the node: want none, got %+v", s)
	}
}

func TestAStopRequestFinishesTheStepAndNothingMore(t *testing.T) {
	b := newBench(t, "mi300x-8")
	ctx, cancel := context.WithCancel(t.Context())
	stopping := &stopAfterMemory{Node: b.node, stop: cancel}
	rec := NewRecorder(runstate.Run{ID: "test", Unloaded: b.opt.Load}, slog.New(slog.DiscardHandler), func(r runstate.Run) { b.runs = append(b.runs, r) })
	run := Run(ctx, nodeOf(stopping, b.node.Drivers()), profile(partition.CPX, partition.NPS4), b.opt, rec)
	if run.Result != runstate.Interrupted || !run.Error.Transient {
		t.Errorf("result %s, error %v; want a transient interruption", run.Result, run.Error)
	}
	if got := b.sim.State(); got.Unloads != 0 {
		t.Errorf("the driver was unloaded %d times after the stop", got.Unloads)
	}
	if s := run.Steps; s[0].Finished.IsZero() || !s[1].Started.IsZero() {
		t.Errorf("steps %+v; want the request finished and the reload not begun", s)
	}
	b.opt.Load = true
	if run := b.run(profile(partition.CPX, partition.NPS4)); run.Result != runstate.Applied {
		t.Errorf("the next run: %s, %v", run.Result, run.Error)
	}
}

func TestAStopRequestEndsTheWaitForTheDriver(t *testing.T) {
	b := newBench(t, "mi300x-8")
	if err := b.sim.Unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.opt.DeviceTimeout = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if run := b.runUntil(ctx, profile(partition.CPX, partition.NPS1)); run.Result != runstate.Interrupted || !run.Error.Transient {
		t.Errorf("result %s, error %v; want a transient interruption", run.Result, run.Error)
	}
}

// observed reads, changes and observes GPUs.
type observed interface {
	Reader
	UseReader
	Executor
}

// nodeOf returns the parts of a node, for which n observes and changes the GPUs.
func nodeOf(n observed, d drivers) Node {
	return Node{Reader: n, Use: n, Driver: d, Modules: d, Executor: n}
}

// stopAfterMemory is a node that gets a stop request during its first step.
type stopAfterMemory struct {
	*gpu.Node
	stop func()
}

func (s *stopAfterMemory) Execute(ctx context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	s.stop()
	return s.Node.Execute(ctx, steps, tell)
}

func TestADriverLeftUnloadedIsLoaded(t *testing.T) {
	b := newBench(t, "mi300x-8")
	if err := b.sim.Unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.opt.Load = true
	if run := b.run(profile(partition.CPX, partition.NPS4)); run.Result != runstate.Applied || run.Unloaded {
		t.Errorf("result %s, %v; want it loaded and applied", run.Result, run.Error)
	}
}

func TestADriverLeftUnloadedIsRememberedUntilItIsLoaded(t *testing.T) {
	b := newBench(t, "mi300x-8")
	if err := b.sim.Unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.opt.Load = true
	b.inject(times(2, fail(sim.OpLoad, syscall.EIO)))
	run := b.run(profile(partition.CPX, partition.NPS4))
	if run.Result != runstate.Failed || !HalfReloaded(&run, run.Boot) {
		t.Errorf("result %s, unloaded %v; want the next run to try again", run.Result, run.Unloaded)
	}
	var last runstate.Run
	rec := NewRecorder(runstate.Run{Unloaded: true}, slog.New(slog.DiscardHandler), func(r runstate.Run) { last = r })
	if err := Load(t.Context(), b.node.Drivers(), time.Minute, rec); err != nil {
		t.Fatal(err)
	}
	if rec.Nothing(); last.Unloaded || !b.node.Drivers().Loaded() {
		t.Errorf("loaded %v, and the report says unloaded %v", b.node.Drivers().Loaded(), last.Unloaded)
	}
}

func TestHalfReloadedSeesOnlyAReloadWithoutEndInThisBoot(t *testing.T) {
	begun := runstate.Step{Step: partition.Step{Kind: partition.ReloadDriver}, Started: time.Unix(1, 0)}
	ended, failed := begun, begun
	ended.Finished = time.Unix(2, 0)
	failed.Finished, failed.Error = time.Unix(2, 0), "cannot load amdgpu"
	for _, test := range []struct {
		name string
		run  *runstate.Run
		want bool
	}{
		{"no run", nil, false},
		{"killed in the middle", &runstate.Run{Boot: "b", Steps: []runstate.Step{begun}}, true},
		{"killed in an earlier run, and not repaired", &runstate.Run{Boot: "b", Unloaded: true}, true},
		{"failed", &runstate.Run{Boot: "b", Steps: []runstate.Step{failed}}, true},
		{"ended", &runstate.Run{Boot: "b", Steps: []runstate.Step{ended}}, false},
		{"before a reboot", &runstate.Run{Boot: "a", Steps: []runstate.Step{begun}}, false},
		{"interrupted before the reload began", &runstate.Run{Boot: "b", Result: runstate.Interrupted, Steps: []runstate.Step{{Step: begun.Step}}}, false},
		{"killed before it reported", &runstate.Run{Boot: "b", Result: runstate.Running, Steps: []runstate.Step{{Step: begun.Step}}}, true},
	} {
		if got := HalfReloaded(test.run, "b"); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

func TestWhatIsHeldBackIsPublishedWhenNothingFollows(t *testing.T) {
	published := make(chan runstate.Run, 10)
	rec := NewRecorder(runstate.Run{}, slog.New(slog.DiscardHandler), func(r runstate.Run) { published <- r })
	step := partition.Step{Kind: partition.ReloadDriver}
	rec.begin("test")
	rec.planned(partition.Steps{step})
	rec.step(step, true, nil) // and then it hangs
	deadline := testdeadline.After(10 * time.Second)
	for {
		select {
		case r := <-published:
			if len(r.Steps) == 1 && !r.Steps[0].Started.IsZero() {
				return
			}
		case <-deadline:
			t.Fatal("no report has the step that began, within the limit of the test")
		}
	}
}

func TestAPlannedReloadIsPublishedBeforeItBegins(t *testing.T) {
	var last runstate.Run
	rec := NewRecorder(runstate.Run{}, slog.New(slog.DiscardHandler), func(r runstate.Run) { last = r })
	rec.begin("test")
	rec.planned(partition.Steps{{Kind: partition.ReloadDriver}}) // and then it is killed
	if !HalfReloaded(&last, "") {
		t.Errorf("the report lacks the reload: %+v", last)
	}
}

func TestEveryPublishedReportIsConsistent(t *testing.T) {
	b := newBench(t, "mi300x-8")
	b.run(profile(partition.QPX, partition.NPS4))
	if b.runs[0].Result != runstate.Running || b.runs[len(b.runs)-1].Result != runstate.Applied {
		t.Errorf("published from %s to %s", b.runs[0].Result, b.runs[len(b.runs)-1].Result)
	}
	last := b.runs[len(b.runs)-1]
	if n := slices.IndexFunc(last.Steps, func(s runstate.Step) bool { return s.Finished.IsZero() || s.Error != "" }); n >= 0 {
		t.Errorf("step %+v: want it finished without an error", last.Steps[n])
	}
	if len(last.Steps) != 10 {
		t.Errorf("%d steps, want a request, a reload and 8 switches", len(last.Steps))
	}
}
