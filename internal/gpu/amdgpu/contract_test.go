package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// setter changes modes. Each implementation must pass the contract tests.
type setter interface {
	SetCompute(context.Context, partition.Address, partition.Compute) error
	SetMemory(context.Context, partition.Address, partition.Memory) error
}

// backend is a simulated node with its reader and its setter.
type backend struct {
	sim    *simtest.Node
	node   node
	set    setter
	errnos bool // errors contain the driver's errno

	library  bool // the library reads the modes too
	noMemory bool // memory modes are refused
}

// opener starts a node of a kind.
type opener func(t *testing.T, kind string, o sim.Options) backend

func overSysfs(t *testing.T, kind string, o sim.Options) backend {
	t.Helper()
	s := simtest.Start(t, kind, o)
	n := whole(gpu.Roots{Sys: s.Sys, Proc: "/proc", Dev: s.Dev}, Modprobe(s.Modprobe), BusyRetry(300*time.Millisecond, 5*time.Millisecond))
	return backend{sim: s, node: n, set: n, errnos: true}
}

func TestContract_Sysfs(t *testing.T) { contract(t, overSysfs) }

// contract is what dcm expects of a device backend.
func contract(t *testing.T, open opener) {
	t.Run("discover", func(t *testing.T) { discover(t, open) })
	t.Run("every accepted mode", func(t *testing.T) { everyMode(t, open) })
	t.Run("refusals", func(t *testing.T) { refusals(t, open) })
	t.Run("failures", func(t *testing.T) { failures(t, open) })
	t.Run("busy", func(t *testing.T) { busy(t, open) })
	t.Run("memory", func(t *testing.T) { memory(t, open) })
}

func (b backend) devices(t *testing.T) []gpu.Device {
	t.Helper()
	d, err := b.node.all.Devices(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (b backend) modes(t *testing.T) map[partition.Address]string {
	t.Helper()
	out := make(map[partition.Address]string)
	for _, g := range gpu.Partitionable(b.devices(t)) {
		out[g.Address] = g.Mode().String()
	}
	return out
}

// first returns the address of the first GPU.
func (b backend) first(t *testing.T) partition.Address {
	t.Helper()
	gpus := gpu.Partitionable(b.devices(t))
	if len(gpus) == 0 {
		t.Fatal("no GPU")
	}
	return gpus[0].Address
}

func discover(t *testing.T, open opener) {
	for kind, want := range map[string]struct{ gpus, others int }{
		"mi300x-8": {8, 0}, "mi300x-8-bmc": {8, 1}, "mi300a-4": {4, 0}, "mi355x-8": {8, 0}, "mi210-2": {0, 2}, "mi300x-vf-8": {8, 0},
	} {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind, sim.Options{})
			devices, err := b.node.all.Wait(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			gpus := gpu.Partitionable(devices)
			if len(gpus) != want.gpus || len(devices) != want.gpus+want.others {
				t.Fatalf("%d GPUs among %d devices, want %+v", len(gpus), len(devices), want)
			}
			for i, g := range gpus {
				model, _ := partition.LookupModel(partition.AMD, g.Device)
				if g.Mode().String() != "SPX/NPS1" || g.XCC != model.XCC || len(g.AvailableCompute) == 0 || g.ReadOnly != model.Virtual {
					t.Errorf("GPU %+v", g)
				}
				if i > 0 && gpus[i-1].Address.Compare(g.Address) >= 0 {
					t.Errorf("%s comes after %s", g.Address, gpus[i-1].Address)
				}
			}
		})
	}
}

func everyMode(t *testing.T, open opener) {
	for kind, modes := range map[string][]partition.Compute{
		"mi300x-8": {"CPX", "QPX", "DPX", "SPX"},
		"mi300a-4": {"TPX", "CPX", "SPX"},
		"mi355x-8": {"CPX", "SPX", "QPX", "DPX"},
	} {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind, sim.Options{})
			gpu := b.first(t)
			for _, mode := range modes {
				if err := b.set.SetCompute(patient(t), gpu, mode); err != nil {
					t.Fatal(err)
				}
				for _, d := range b.devices(t) {
					want := partition.SPX
					if d.Address == gpu {
						want = mode
					}
					if d.Compute != want || len(d.RenderNodes) != d.Partitions() {
						t.Errorf("after %s, %s has %s and %d render nodes", mode, d.Address, d.Mode(), len(d.RenderNodes))
					}
				}
			}
		})
	}
}

func refusals(t *testing.T, open opener) {
	for _, test := range []struct {
		name, kind string
		set        func(setter, context.Context, partition.Address) error
		errno      error
	}{
		{"compute mode of another model", "mi300x-8", compute("TPX"), unix.EINVAL},
		{"compute mode against the memory mode", "mi300a-4", compute("DPX"), unix.EINVAL},
		{"compute mode of a virtual function", "mi300x-vf-8", compute("CPX"), errReadOnly},
		{"memory mode that is not supported", "mi355x-8", request("NPS8"), unix.EINVAL},
		{"memory mode of an APU", "mi300a-4", request("NPS4"), nil},
		{"memory mode of a virtual function", "mi300x-vf-8", request("NPS4"), errReadOnly},
		{"GPU without partition files", "mi210-2", compute("CPX"), unix.ENOENT},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, test.kind, sim.Options{})
			before := b.modes(t)
			gpu := b.devices(t)[0].Address
			err := test.set(b.set, patient(t), gpu)
			b.expect(t, err, gpu, test.errno, false)
			if Hint(err) == "" {
				t.Errorf("no hint for %v", err)
			}
			if d := cmp.Diff(before, b.modes(t)); d != "" {
				t.Errorf("modes (-before +after):\n%s", d)
			}
		})
	}
}

func compute(to partition.Compute) func(setter, context.Context, partition.Address) error {
	return func(s setter, ctx context.Context, a partition.Address) error { return s.SetCompute(ctx, a, to) }
}

func request(to partition.Memory) func(setter, context.Context, partition.Address) error {
	return func(s setter, ctx context.Context, a partition.Address) error { return s.SetMemory(ctx, a, to) }
}

// expect checks an error, which must name the GPU.
func (b backend) expect(t *testing.T, err error, gpu partition.Address, errno error, transient bool) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatal("no error")
	case !strings.Contains(err.Error(), string(gpu)):
		t.Errorf("error %q does not name %s", err, gpu)
	case b.errnos && errno != nil && !errors.Is(err, errno):
		t.Errorf("error %q, want %v", err, errno)
	case IsTransient(err) != transient:
		t.Errorf("error %q: transient %v, want %v", err, IsTransient(err), transient)
	}
}

func failures(t *testing.T, open opener) {
	const compute = sim.OpCompute
	const deadline = 300 * time.Millisecond // limit of each operation that does not hang
	late, hang := sim.Duration(3*deadline), sim.Duration(deadline+writeGraceTimeout+time.Second)
	library := open(t, "mi210-2", sim.Options{}).library
	for _, test := range []struct {
		name      string
		fault     sim.Fault
		now       string // the mode after the operation; "" if the GPU is gone
		errno     error  // nil: it succeeds
		transient bool
	}{
		{"busy for a moment", sim.Fault{Op: compute, Errno: sim.Errno(syscall.EBUSY), Times: 3}, "CPX/NPS1", nil, false},
		{"busy for long", sim.Fault{Op: compute, Errno: sim.Errno(syscall.EBUSY), Always: true}, "SPX/NPS1", unix.EBUSY, true},
		{"in reset", sim.Fault{Op: compute, Errno: sim.Errno(syscall.EPERM)}, "SPX/NPS1", unix.EPERM, true},
		{"in reset when it is read", sim.Fault{Op: sim.OpRead, Errno: sim.Errno(syscall.EPERM)}, "SPX/NPS1", unix.EPERM, true},
		{"refused", sim.Fault{Op: compute, Errno: sim.Errno(syscall.EINVAL)}, "SPX/NPS1", unix.EINVAL, false},
		{"failed after the switch", sim.Fault{Op: compute, Errno: sim.Errno(syscall.EIO)}, "CPX/NPS1", unix.EIO, false},
		{"gone", sim.Fault{Op: compute, Vanish: true}, "", unix.ENODEV, false},
		{"without effect", sim.Fault{Op: compute, Wrong: true}, "SPX/NPS1", errMismatch, false},
		{"wrong when it is read back", sim.Fault{Op: sim.OpRead, File: computeFile, Skip: 1, Wrong: true}, "CPX/NPS1", errMismatch, false},
		{"done, but after the deadline", sim.Fault{Op: compute, Hang: late}, "CPX/NPS1", nil, false},
		{"failed after the deadline", sim.Fault{Op: compute, Hang: late, Errno: sim.Errno(syscall.EINVAL)}, "SPX/NPS1", unix.EINVAL, false},
		{"read back after the deadline", sim.Fault{Op: sim.OpRead, File: computeFile, Skip: 1, Hang: late}, "CPX/NPS1", nil, false},
		{"hangs, and is carried out then", sim.Fault{Op: compute, Hang: hang}, "CPX/NPS1", context.DeadlineExceeded, true},
		{"hangs when it is read back", sim.Fault{Op: sim.OpRead, File: computeFile, Skip: 1, Hang: hang}, "CPX/NPS1", context.DeadlineExceeded, true},
	} {
		if library && (test.fault.Skip > 0 || test.fault.Hang > 0) {
			continue // the library decides when it writes and which read is the read back
		}
		t.Run(test.name, func(t *testing.T) {
			b := open(t, "mi300x-8", sim.Options{})
			gpu := b.first(t)
			test.fault.GPU = gpu
			if library && test.fault.Times > 1 {
				test.fault.Times = 1 // on a busy machine a program takes long
			}
			if err := b.sim.Inject(test.fault); err != nil {
				t.Fatal(err)
			}
			ctx := patient(t)
			if test.fault.Hang != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, deadline)
				defer cancel()
			}
			err := b.set.SetCompute(ctx, gpu, partition.CPX)
			letGo(t)
			b.sim.ClearFaults()
			if test.errno == nil && err != nil {
				t.Error(err)
			}
			if test.errno == errMismatch {
				mismatch, ok := errors.AsType[*MismatchError](err)
				if !ok || mismatch.Want != "CPX" || mismatch.Got == "CPX" {
					t.Errorf("error %v, want a mismatch", err)
				}
				b.expect(t, err, gpu, nil, false)
			} else if test.errno != nil {
				b.expect(t, err, gpu, test.errno, test.transient)
			}
			hung := test.errno == context.DeadlineExceeded // the write is carried out after it was given up
			if failed, ok := errors.AsType[*SetError](err); ok && !hung && failed.Now != "" && failed.Now+"/NPS1" != test.now {
				t.Errorf("error %q reports the mode %s, want %s", err, failed.Now, test.now)
			} else if b.errnos && test.errno == unix.EIO && failed.Now == "" {
				t.Errorf("error %q lacks the mode of the GPU", err)
			}
			if got := b.modes(t)[gpu]; got != test.now {
				t.Errorf("the GPU has %q, want %q", got, test.now)
			}
		})
	}
}

// letGo waits until no call hangs in the simulated driver. That driver is part of the test's
// process, which cannot exit before.
func letGo(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	stacks := make([]byte, 1<<20)
	hangs := func() bool {
		all := string(stacks[:runtime.Stack(stacks, true)])
		return strings.Contains(all, "sysfs.Within[") || strings.Contains(all, "(*pendingWrites).run")
	}
	for ctx := patient(t); hangs(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("a call still hangs")
		}
	}
}

// errMismatch stands for a MismatchError in a table.
var errMismatch = errors.New("mismatch")

// opened opens a device of the node.
func (b backend) opened(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open(b.sim.Dev+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { f.Close() })
	return f
}

func busy(t *testing.T, open opener) {
	for _, name := range []string{"kfd", "dri/renderD128"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, "mi300x-8", sim.Options{Settle: 50 * time.Millisecond})
			gpu := b.first(t)
			holder := b.opened(t, name)
			b.expect(t, b.set.SetCompute(patient(t), gpu, "CPX"), gpu, unix.EBUSY, true)
			holder.Close()
			if err := b.set.SetCompute(patient(t), gpu, "CPX"); err != nil {
				t.Errorf("after the end of the holder: %v", err)
			}
		})
	}
}

func memory(t *testing.T, open opener) {
	b := open(t, "mi300x-8", sim.Options{})
	gpu := b.first(t)
	if b.noMemory {
		b.expect(t, b.set.SetMemory(patient(t), gpu, "NPS4"), gpu, nil, false)
		return
	}
	if err := b.set.SetMemory(patient(t), gpu, "NPS4"); err != nil {
		t.Fatal(err)
	}
	if got := b.modes(t)[gpu]; got != "SPX/NPS1" {
		t.Errorf("%s before the reload, want SPX/NPS1", got)
	}
	if err := b.node.Reload(patient(t)); err != nil {
		t.Fatal(err)
	}
	modes := b.modes(t)
	if len(modes) != 8 {
		t.Errorf("%d GPUs after the reload", len(modes))
	}
	for a, got := range modes {
		if got != "CPX/NPS4" {
			t.Errorf("%s has %s after the reload, want CPX/NPS4", a, got)
		}
	}
	b.expect(t, b.set.SetCompute(patient(t), gpu, "SPX"), gpu, unix.EINVAL, false)
	if n := len(b.devices(t)[0].RenderNodes); n != 8 {
		t.Errorf("%d render nodes, want 8: %v", n, fmt.Sprint(b.devices(t)[0].RenderNodes))
	}
}
