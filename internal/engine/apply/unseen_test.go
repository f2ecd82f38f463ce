package apply

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// blind is a node whose GPUs cannot be read after a failed switch.
type blind struct {
	*gpu.Node
	failed bool
}

func (b *blind) Execute(ctx context.Context, steps []partition.Step, tell gpu.StepFunc) error {
	err := b.Node.Execute(ctx, steps, tell)
	b.failed = b.failed || err != nil
	return err
}

func (b *blind) Wait(ctx context.Context) ([]gpu.Device, error) {
	if b.failed {
		return nil, &gpu.NotReadyError{Err: context.DeadlineExceeded}
	}
	return b.Node.Wait(ctx)
}

func TestRun_UnreadableIsNotGone(t *testing.T) {
	b := newBench(t, "mi300x-8")
	if err := b.sim.Inject(always(at(third, fail(sim.OpCompute, syscall.EPERM)))); err != nil {
		t.Fatal(err)
	}
	rec := NewRecorder(runstate.Run{}, slog.New(slog.DiscardHandler), func(runstate.Run) {})
	run := Run(t.Context(), nodeOf(&blind{Node: b.node}, b.node.Drivers()), profile(partition.CPX, partition.NPS1), b.opt, rec)
	if run.Result != runstate.Failed || strings.Contains(run.Error.Text, "gone") || !strings.Contains(run.Error.Text, "the undo failed as well: cannot read the GPUs") {
		t.Errorf("result %s, error %q; want an error that the GPUs cannot be read", run.Result, run.Error.Text)
	}
	if !run.Error.Transient {
		t.Error("the error is permanent")
	}
}

// If the driver rejected a GPU, the run does not wait for it again after each load.
func TestRun_RejectedGPUIsAwaitedOnce(t *testing.T) {
	b := newBench(t, "mi300x-8")
	b.opt.DeviceTimeout, b.opt.ReloadTimeout, b.opt.StepTimeout = time.Hour, time.Hour, time.Hour
	b.inject(always(at(third, fail(sim.OpLoad, syscall.EIO))))
	ended := make(chan runstate.Run)
	go func() { ended <- b.run(profile(partition.CPX, partition.NPS4)) }()
	select {
	case run := <-ended:
		if run.Result != runstate.Failed || !run.Error.Transient || !strings.Contains(run.Error.Text, string(third)+" (MI300X): driver not bound") {
			t.Errorf("%s, %+v; want it to name the GPU", run.Result, run.Error)
		}
		if s := b.sim.State(); s.Loads != 2 {
			t.Errorf("%d loads, want 2: the change and the undo", s.Loads)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the run still waits")
	}
}

// If a GPU disappears from the bus during a run, the run fails and the other GPUs get their
// previous modes back.
func TestRun_LostGPUUndoesOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		want partition.Profile
		op   sim.Op
	}{
		{"in a switch", profile(partition.CPX, partition.NPS1), sim.OpCompute},
		{"in a switch after a reload", profile(partition.QPX, partition.NPS4), sim.OpCompute},
		{"in a reload", profile(partition.CPX, partition.NPS4), sim.OpLoad},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, "mi300x-8")
			b.opt.DeviceTimeout = time.Minute
			if err := b.sim.Inject(sim.Fault{Op: tt.op, GPU: third, Vanish: true}); err != nil {
				t.Fatal(err)
			}
			run := b.run(tt.want)
			if run.Result != runstate.Failed || !strings.Contains(run.Error.Text, string(third)) {
				t.Errorf("the run is %s: %+v", run.Result, run.Error)
			}
			if got := b.modes(); got != "7 SPX/NPS1" {
				t.Errorf("the GPUs are %s", got)
			}
		})
	}
}

func TestExplain_HintForGPUsWithoutDriver(t *testing.T) {
	b := newBench(t, "mi300x-8")
	if err := b.sim.Unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	devices, err := b.node.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compare(devices, profile(partition.CPX, partition.NPS1))
	if e := Explain(err); !strings.Contains(e.Text, "has no driver") || !strings.Contains(e.Hint, "modprobe") {
		t.Errorf("%+v", e)
	}
}

// The undo is finished while the timed-out write is still pending in the driver. The report must
// not call that write undone.
func TestRun_PendingWriteIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t, "mi300x-8")
	b.opt.StepTimeout = time.Second
	b.inject(at(third, sim.Fault{Op: sim.OpCompute, Hang: sim.Duration(20 * time.Second)}))
	run := b.run(profile(partition.CPX, partition.NPS1))
	if run.Result != runstate.Failed || !strings.Contains(run.Error.Text, "may carry it out later") {
		t.Errorf("%s, %+v", run.Result, run.Error)
	}
	n := slices.IndexFunc(run.Steps, func(s runstate.Step) bool { return s.UnderWay })
	if n < 0 || run.Steps[n].GPU != third || run.Steps[n].Undo {
		t.Errorf("steps %+v, want the first one of %s to be reported as in progress", run.Steps, third)
	}
	deadline, tick := time.After(2*time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for len(b.node.PendingWrites()) > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the pending write did not end within the limit of the test")
		}
	}
	if got := b.hardware(); got != "2 SPX/NPS1 1 CPX/NPS1 5 SPX/NPS1" {
		t.Errorf("after the pending write the GPUs are %s, want its mode", got)
	}
}
