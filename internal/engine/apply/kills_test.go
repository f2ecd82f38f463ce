package apply

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// mortal is a node whose run is killed before one of its calls takes effect, or in the middle of a step.
type mortal struct {
	*sliced
	at, calls int // the number of the call, from 1; 0: the run is not killed
}

type killedRun struct{}

func (m *mortal) call() {
	if m.calls++; m.calls == m.at {
		panic(killedRun{})
	}
}

func (m *mortal) Wait(ctx context.Context) ([]gpu.Device, error) { m.call(); return m.sliced.Wait(ctx) }
func (m *mortal) Devices(ctx context.Context) ([]gpu.Device, error) {
	m.call()
	return m.sliced.Devices(ctx)
}
func (m *mortal) Usage(ctx context.Context) (gpu.Usage, error) { m.call(); return m.sliced.Usage(ctx) }
func (m *mortal) PendingWrites() []gpu.PendingWrite            { m.call(); return m.sliced.PendingWrites() }

func (m *mortal) Execute(ctx context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	m.call()
	defer m.call()
	return m.sliced.Execute(ctx, steps, func(s partition.Step, begins bool, err error) {
		tell(s, begins, err)
		m.call()
	})
}

// run makes a run until its end, or until it is killed. It returns the last report.
func (m *mortal) run(t *testing.T, last runstate.Run, p partition.Profile, opt Options) (report runstate.Run) {
	t.Helper()
	var mu sync.Mutex
	var published runstate.Run
	ended := false
	defer func() {
		if r := recover(); r != nil && r != any(killedRun{}) {
			panic(r)
		}
		mu.Lock()
		defer mu.Unlock()
		report, ended = published, true
	}()
	rec := NewRecorder(runstate.Run{ID: "test", NoRoom: runstate.NoRoomSince(&last, "")}, slog.New(slog.DiscardHandler), func(r runstate.Run) {
		mu.Lock()
		defer mu.Unlock()
		if !ended { // a delayed report of a killed run is not written
			published = r
		}
	})
	return Run(t.Context(), nodeOf(m, m), p, opt, rec)
}

// The run is killed at each of its calls, also in an undo. Every instance that both geometries have is left,
// and no GPU has others than these geometries. The next run completes the change.
func TestRun_KilledAtEachCall(t *testing.T) {
	const now, then = "3g.40gb@0 1g.10gb@4 1g.10gb@5", "3g.40gb 2g.20gb"
	opt := Options{Rollback: true, EachGPU: true, DeviceTimeout: time.Minute, StepTimeout: time.Minute, ReloadTimeout: time.Minute}
	p := partition.Profile{Name: "test", Groups: []partition.Group{{MIG: geometry(then), Rest: true}}}
	for name, fail := range map[string]func(*sliced) func(partition.Step) error{
		"success": func(*sliced) func(partition.Step) error { return nil },
		"a GPU fails": func(s *sliced) func(partition.Step) error {
			return failOnce(s.gpus[1].Address, partition.CreateInstances)
		},
		"all together": func(s *sliced) func(partition.Step) error {
			return failOnce(s.gpus[1].Address, partition.CreateInstances)
		},
	} {
		opt.EachGPU = name != "all together"
		begin := func(at int) *mortal {
			m := &mortal{sliced: newSliced(3, now), at: at}
			m.fail = fail(m.sliced)
			return m
		}
		whole := begin(0)
		if r := whole.run(t, runstate.Run{}, p, opt); r.Finished.IsZero() || whole.calls < 10 {
			t.Fatalf("%s: %s after %d calls", name, r.Result, whole.calls)
		}
		for at := range whole.calls {
			m := begin(at + 1)
			last := m.run(t, runstate.Run{}, p, opt)
			when := fmt.Sprintf("%s, killed at call %d", name, at+1)
			m.defined(t, when, now, "3g.40gb@0 2g.20gb@4")
			m.at, m.fail = 0, nil
			if r := m.run(t, last, p, opt); !r.Result.OK() || m.shapes() != "3 [3g.40gb@0 2g.20gb@4]" {
				t.Errorf("%s: next run %s, %+v; the GPUs are %s", when, r.Result, r.Error, m.shapes())
			}
		}
		t.Logf("%s: %d calls", name, whole.calls)
	}
}

// failOnce fails the first step of a kind on a GPU.
func failOnce(a partition.Address, kind partition.Kind) func(partition.Step) error {
	failed := false
	return func(s partition.Step) error {
		if failed || s.GPU != a || s.Kind != kind {
			return nil
		}
		failed = true
		return fmt.Errorf("%s: in use", a)
	}
}

// defined reports GPUs that have an instance of neither geometry, or lack one that both have.
func (m *mortal) defined(t *testing.T, when, one, other string) {
	t.Helper()
	a, b := geometry(one).Instances, geometry(other).Instances
	for _, g := range m.gpus {
		for _, i := range g.MIG.Instances {
			if !slices.ContainsFunc(append(slices.Clone(a), b...), func(o partition.Instance) bool { return same(i, o) }) {
				t.Errorf("%s: %s has %s@%d", when, g.Address, i.Profile, i.Start)
			}
		}
		for _, i := range a {
			if slices.ContainsFunc(b, func(o partition.Instance) bool { return same(i, o) }) && !slices.ContainsFunc(g.MIG.Instances, func(o partition.Instance) bool { return same(i, o) }) {
				t.Errorf("%s: %s lacks %s@%d, which stays", when, g.Address, i.Profile, i.Start)
			}
		}
	}
}

func same(a, b partition.Instance) bool { return a.Profile == b.Profile && a.Start == b.Start }
