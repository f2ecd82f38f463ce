package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"dcm/internal/amdgpu"
	"dcm/internal/partition"
	"dcm/internal/sim"
)

func TestARebootIsSaidToHelpWhereNothingLessDoes(t *testing.T) {
	refusal := always(fail(sim.OpUnload, syscall.EBUSY))
	for name, tt := range map[string]struct {
		given  func(*bench)
		memory partition.Memory
		want   bool
	}{
		"the driver is in use by no process":    {func(b *bench) { b.inject(refusal) }, partition.NPS4, true},
		"the driver may not be reloaded":        {func(b *bench) { b.opt.ReloadDriver = false }, partition.NPS4, true},
		"the mode does not take effect":         {func(b *bench) { b.inject(at(third, times(once, sim.Fault{Op: sim.OpLoad, Wrong: true}))) }, partition.NPS4, true},
		"a process has a GPU open":              {func(b *bench) { b.hold() }, partition.NPS4, false},
		"a process, and the driver is to stay":  {func(b *bench) { b.hold(); b.opt.ReloadDriver = false }, partition.NPS4, false},
		"the driver does not come back":         {func(b *bench) { b.inject(times(thrice, fail(sim.OpLoad, syscall.EIO))) }, partition.NPS4, false},
		"a compute mode is refused":             {func(b *bench) { b.inject(always(at(third, fail(sim.OpCompute, syscall.EINVAL)))) }, partition.NPS1, false},
		"a GPU stays busy with a compute mode":  {func(b *bench) { b.inject(always(at(third, fail(sim.OpCompute, syscall.EBUSY)))) }, partition.NPS1, false},
		"a profile that does not fit the GPUs":  {func(*bench) {}, partition.NPS8, false},
		"a memory mode request is not accepted": {func(b *bench) { b.inject(always(fail(sim.OpMemory, syscall.EINVAL))) }, partition.NPS4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "mi300x-8")
			tt.given(b)
			run := b.run(profile(partition.CPX, tt.memory))
			if run.Error == nil || run.Error.Reboot != tt.want || run.Error.Reboot && run.Error.Transient {
				t.Errorf("%s, %+v; want an error with reboot %t", run.Result, run.Error, tt.want)
			}
		})
	}
}

// A process that opens a GPU after the run has looked is to blame for a refusal.
func TestALateHolderIsNoReasonForAReboot(t *testing.T) {
	b := newBench(t, "mi300x-8")
	b.inject(always(fail(sim.OpUnload, syscall.EBUSY)))
	err := b.node.Reload(t.Context())
	told := func(partial error) bool {
		t.Helper()
		r := &run{node: seeing{b.node, partial}, opt: b.opt}
		return Explain(r.hopeless(t.Context(), err)).Reboot
	}
	if !told(nil) {
		t.Error("no reboot although nobody has a GPU open")
	}
	if told(amdgpu.ErrPartial) {
		t.Error("a reboot although not everybody could be looked at")
	}
	b.hold()
	if told(nil) {
		t.Error("a reboot although a process has a GPU open")
	}
}

// seeing is a node all of whose processes may be looked at, or not: that depends
// on what else runs on the machine of the test.
type seeing struct {
	*amdgpu.Node
	partial error
}

func (s seeing) Holders(ctx context.Context) ([]amdgpu.Holder, error) {
	all, err := s.Node.Holders(ctx)
	if err == nil || errors.Is(err, amdgpu.ErrPartial) {
		err = s.partial
	}
	return all, err
}

func (b *bench) inject(f sim.Fault) {
	b.t.Helper()
	if err := b.sim.Inject(f); err != nil {
		b.t.Fatal(err)
	}
}

// hold has another process open a device for the time of the test.
func (b *bench) hold() {
	b.t.Helper()
	f, err := os.Open(filepath.Join(b.sim.Dev, "kfd"))
	if err != nil {
		b.t.Fatal(err)
	}
	holdOpen(b.t, f)
}
