package apply

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/testdeadline"
)

func TestExplain_RebootOnlyAsLastResort(t *testing.T) {
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

// If a process opens a GPU after the run scanned the open files, the driver's refusal is the fault
// of that process, and a reboot is not suggested.
func TestWhose_HolderAfterScan(t *testing.T) {
	b := newBench(t, "mi300x-8")
	b.inject(always(fail(sim.OpUnload, syscall.EBUSY)))
	err := b.node.Execute(t.Context(), partition.Steps{{Kind: partition.ReloadDriver}}, func(partition.Step, bool, error) {})
	explain := func(uninspected ...gpu.Uninspected) runstate.Error {
		t.Helper()
		d := Difference{Steps: partition.Steps{{Kind: partition.ReloadDriver}}}
		return Explain(blame{seeing{b.node, uninspected}, b.recorder()}.whose(t.Context(), d, partition.AMD, err))
	}
	if got := explain(); !got.Reboot || got.Unseen != nil || !strings.Contains(got.Text, "only the kernel uses it by amdgpu_peer") {
		t.Errorf("%+v; want a reboot, since a module alone uses the driver", got)
	}
	if got := explain(gpu.Uninspected{PID: 7, Command: "sshd"}); got.Reboot || got.Unseen == nil {
		t.Errorf("%+v; want no reboot if a process could not be inspected", got)
	}
	b.hold()
	if got := explain(); got.Reboot || got.Unseen != nil || !got.Transient {
		t.Errorf("%+v; want no reboot while a process has a GPU open", got)
	}
}

// The file is open, but in no process: it is in flight on a socket.
func TestWhose_NoVisibleHolder(t *testing.T) {
	for name, p := range map[string]partition.Profile{
		"a reload":         profile(partition.CPX, partition.NPS4),
		"a compute switch": profile(partition.CPX, partition.NPS1),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "mi300x-8")
			end := inFlight(t, filepath.Join(b.sim.Dev, "kfd"))
			run := b.run(p)
			e := run.Error
			if e == nil || e.Unseen == nil || e.Unseen.Unseen != 2 || e.Reboot || !e.Transient || !strings.Contains(e.Text, "something that cannot be seen holds the driver") {
				t.Fatalf("%s, %+v; want an invisible holder", run.Result, e)
			}
			if b.sim.State().Unloads > 0 {
				t.Error("the driver was unloaded")
			}
			end()
			ctx, cancel := testdeadline.Context(t.Context(), time.Minute)
			defer cancel()
			for {
				now, err := b.node.Usage(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if e.Unseen.Eased(UseNow(*e.Unseen, now)) {
					break
				}
			}
			if run := b.run(p); run.Result != runstate.Applied {
				t.Errorf("then %s, %+v", run.Result, run.Error)
			}
		})
	}
}

// The use count of the idle driver is read after a load.
func TestIdle_CountAfterLoad(t *testing.T) {
	b := newBench(t, "mi300x-8")
	r := blame{counting{b.node, 3}, b.recorder()}
	r.idle(t.Context(), partition.AMD, nil)
	if u, _ := r.use.Usage(t.Context()); !r.unused(u.ForVendor(partition.AMD)) {
		t.Errorf("%+v is not the driver's own count, which is %d", u, r.rec.Run().Idle[partition.AMD.String()])
	}
	r.use = counting{b.node, 4}
	if u, _ := r.use.Usage(t.Context()); r.unused(u.ForVendor(0x1234)) {
		t.Errorf("%+v is reported unused by another vendor's driver", u)
	}
	if u, _ := r.use.Usage(t.Context()); r.unused(u.ForVendor(partition.AMD)) {
		t.Errorf("%+v is reported as unused", u)
	}
}

// A use count of one driver does not hide that the count of another driver has fallen.
func TestUseNow_TwoVendors(t *testing.T) {
	amd := gpu.DriverUse{Vendor: partition.AMD, Counted: true, Count: 2}
	nvidia := gpu.DriverUse{Vendor: partition.NVIDIA, Counted: true, Count: 3}
	before := use(amd)
	for _, tt := range []struct {
		name        string
		amd, nvidia int // use counts
		eased       bool
	}{
		{"nothing has changed", 2, 3, false},
		{"its use has ended", 0, 3, true},
		{"its use has ended, that of the other has risen", 0, 9, true},
		{"the use of the other has ended", 2, 0, false},
	} {
		amd.Count, nvidia.Count = tt.amd, tt.nvidia
		if got := before.Eased(UseNow(before, gpu.Usage{Drivers: []gpu.DriverUse{amd, nvidia}})); got != tt.eased {
			t.Errorf("%s: eased %t, want %t", tt.name, got, tt.eased)
		}
	}
}

// counting is a node whose driver has a use count, and no visible holder.
type counting struct {
	*gpu.Node
	count int
}

func (c counting) Usage(context.Context) (gpu.Usage, error) {
	return gpu.Usage{Drivers: []gpu.DriverUse{{Vendor: partition.AMD, Counted: true, Count: c.count}}}, nil
}

// A process with too many open files to inspect in time blocks a change only if the use count
// does not show that no process is left.
func TestRun_UninspectedProcess(t *testing.T) {
	b := newBench(t, "mi300x-8")
	hog := gpu.Uninspected{PID: 7, Command: "hog", UID: 1000, Files: 20000, Reason: "there was no time", TimedOut: true}
	run := func() runstate.Run {
		return Run(t.Context(), nodeOf(seeing{b.node, []gpu.Uninspected{hog}}, b.node.Drivers()), profile(partition.CPX, partition.NPS1), b.opt, b.recorder())
	}
	end := inFlight(t, filepath.Join(b.sim.Dev, "kfd"))
	got := run()
	if got.Result != runstate.Refused || !strings.Contains(got.Error.Text, "hog (pid 7, user 1000, 20000 open files)") || strings.Contains(got.Error.Hint, "hang") || !got.Error.Transient {
		t.Errorf("%s, %+v; want a refusal that names the process", got.Result, got.Error)
	}
	if s := b.sim.State(); s.ComputeWrites > 0 {
		t.Errorf("%d writes", s.ComputeWrites)
	}
	end()
	ctx, cancel := testdeadline.Context(t.Context(), time.Minute)
	defer cancel()
	for u, err := b.node.Usage(ctx); !u.ForVendor(partition.AMD).Unused(0); u, err = b.node.Usage(ctx) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := run(); got.Result != runstate.Applied {
		t.Errorf("%s, %+v; want it applied, since the count is 0", got.Result, got.Error)
	}
}

// seeing is a node on which all processes are inspected, except for the given ones. On the machine
// of the test that depends on its other processes.
type seeing struct {
	*gpu.Node
	uninspected []gpu.Uninspected
}

func (s seeing) Usage(ctx context.Context) (gpu.Usage, error) {
	u, err := s.Node.Usage(ctx)
	u.Uninspected = s.uninspected
	return u, err
}

func (b *bench) recorder() *Recorder {
	return NewRecorder(runstate.Run{ID: "test"}, slog.New(slog.DiscardHandler), func(r runstate.Run) { b.runs = append(b.runs, r) })
}

// inFlight opens the file and sends it to a socket from which no process receives it.
func inFlight(t *testing.T, file string) (end func()) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Sendmsg(pair[0], []byte{0}, syscall.UnixRights(int(f.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return func() {
		syscall.Close(pair[0])
		syscall.Close(pair[1])
	}
}

func (b *bench) inject(f sim.Fault) {
	b.t.Helper()
	if err := b.sim.Inject(f); err != nil {
		b.t.Fatal(err)
	}
}

// hold starts a process that has a device open until the test ends.
func (b *bench) hold() {
	b.t.Helper()
	f, err := os.Open(filepath.Join(b.sim.Dev, "kfd"))
	if err != nil {
		b.t.Fatal(err)
	}
	holdOpen(b.t, f)
}
