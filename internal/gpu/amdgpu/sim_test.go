package amdgpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// switches returns the steps that switch each GPU to the mode.
func (b backend) switches(t *testing.T, to partition.Compute) []partition.Step {
	t.Helper()
	var steps []partition.Step
	for _, g := range gpu.Partitionable(b.devices(t)) {
		steps = append(steps, partition.Step{Kind: partition.SwitchCompute, GPU: g.Address, From: string(g.Compute), To: string(to)})
	}
	return steps
}

// story has the results that Execute reported for each GPU.
type story map[partition.Address]string

func (s story) tell(step partition.Step, started bool, err error) {
	switch {
	case started:
		s[step.GPU] += "start"
	case err != nil:
		s[step.GPU] += " failed"
	default:
		s[step.GPU] += " done"
	}
}

func TestSwitch_Concurrent(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{SwitchLatency: 200 * time.Millisecond})
	reports := make(story)
	under, most := 0, 0
	err := b.node.modes.switchAll(patient(t), b.switches(t, "CPX"), func(step partition.Step, started bool, err error) {
		reports.tell(step, started, err)
		if under--; started {
			under += 2
		}
		most = max(most, under)
	})
	if err != nil || most != 8 {
		t.Errorf("%d concurrent switches, want 8; error %v", most, err)
	}
	for a, mode := range b.modes(t) {
		if mode != "CPX/NPS1" || reports[a] != "start done" {
			t.Errorf("%s has %s, reported as %q", a, mode, reports[a])
		}
	}
}

// Older kernels run only one switch in the node at a time. Here one switch takes longer than the
// busy timeout of the others.
func TestSwitch_RetriesInTurn(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{SwitchLatency: 100 * time.Millisecond, NodeLock: true})
	b.node.modes.busy.timeout = 10 * time.Millisecond
	reports := make(story)
	if err := b.node.modes.switchAll(patient(t), b.switches(t, "CPX"), reports.tell); err != nil {
		t.Fatal(err)
	}
	for _, g := range b.sim.State().GPUs {
		if g.Compute != "CPX" || g.Switches != 1 || reports[g.Address] != "start done" {
			t.Errorf("%s has %s after %d switches, reported as %q", g.Address, g.Compute, g.Switches, reports[g.Address])
		}
	}
}

func TestSwitch_ReportsEachFailure(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{})
	steps := b.switches(t, "CPX")
	for i, errno := range map[int]syscall.Errno{1: syscall.EINVAL, 4: syscall.EPERM, 6: syscall.EIO} {
		if err := b.sim.Inject(sim.Fault{Op: sim.OpCompute, GPU: steps[i].GPU, Errno: sim.Errno(errno)}); err != nil {
			t.Fatal(err)
		}
	}
	reports := make(story)
	err := b.node.modes.switchAll(patient(t), steps, reports.tell)
	want := make(story)
	for i, s := range steps {
		want[s.GPU] = "start done"
		if i == 1 || i == 6 {
			want[s.GPU] = "start failed" // GPU 4 was in reset at the first attempt only
		}
	}
	if d := cmp.Diff(want, reports); d != "" {
		t.Errorf("reported (-want +got):\n%s", d)
	}
	text := fmt.Sprint(err)
	first, second := strings.Index(text, string(steps[1].GPU)), strings.Index(text, string(steps[6].GPU))
	if first < 0 || second < first || strings.Count(text, "cannot set") != 2 || IsTransient(err) {
		t.Errorf("error %v, want that of %s and then of %s, not transient", err, steps[1].GPU, steps[6].GPU)
	}
}

func TestSwitch_AllBusy(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{})
	b.node.modes.busy.timeout = 500 * time.Millisecond
	b.opened(t, "kfd")
	steps := b.switches(t, "CPX")
	start := time.Now()
	err := b.node.modes.switchAll(patient(t), steps, make(story).tell)
	if took := time.Since(start); took > 7*b.node.modes.busy.timeout {
		t.Errorf("eight GPUs took %v, want about the busy timeout of one, %v", took, b.node.modes.busy.timeout)
	}
	if !errors.Is(err, unix.EBUSY) || !IsTransient(err) {
		t.Errorf("error %v, want EBUSY, transient", err)
	}
}

func TestSwitch_OtherSteps(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{})
	gpu := b.first(t)
	for _, step := range []partition.Step{
		{Kind: partition.ReloadDriver},
		{Kind: partition.RequestMemory, GPU: gpu, To: "NPS4"},
		{Kind: partition.SwitchCompute, GPU: gpu, To: "HPX"},
	} {
		if err := b.node.modes.switchAll(patient(t), []partition.Step{step}, make(story).tell); err == nil {
			t.Errorf("%s is no error", step)
		}
	}
	if s := b.sim.State(); s.ComputeWrites != 0 || s.MemoryWrites != 0 {
		t.Errorf("%d compute and %d memory writes, want none", s.ComputeWrites, s.MemoryWrites)
	}
}

func TestSetCompute_OneWrite(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{})
	gpu := b.first(t)
	if err := errors.Join(b.node.SetCompute(patient(t), gpu, "CPX"), b.node.SetMemory(patient(t), gpu, "NPS4")); err != nil {
		t.Fatal(err)
	}
	if s := b.sim.State(); s.ComputeWrites != 1 || s.MemoryWrites != 1 {
		t.Errorf("%d compute and %d memory writes, want one each", s.ComputeWrites, s.MemoryWrites)
	}
}

func TestReload_Simulator(t *testing.T) {
	eio := sim.Errno(syscall.EIO)
	late := partition.Address("0000:26:00.0")
	for _, test := range []struct {
		name   string
		fault  sim.Fault
		want   string // in the error
		loaded bool
	}{
		{"in use for a moment", sim.Fault{Op: sim.OpUnload, Errno: sim.Errno(syscall.EBUSY)}, "", true},
		{"in use", sim.Fault{Op: sim.OpUnload, Errno: sim.Errno(syscall.EBUSY), Always: true}, "cannot unload amdgpu; nothing was changed", true},
		{"loaded at the second try", sim.Fault{Op: sim.OpLoad, Errno: eio}, "", true},
		{"never loaded", sim.Fault{Op: sim.OpLoad, Errno: eio, Always: true}, "the driver is not loaded", false},
		{"one GPU is late", sim.Fault{Op: sim.OpLoad, GPU: late, Hang: sim.Duration(50 * time.Millisecond)}, "", true},
		{"one GPU is not brought up", sim.Fault{Op: sim.OpLoad, GPU: late, Errno: eio}, "0000:26:00.0 (MI300X): driver not bound", true},
		{"one GPU is gone", sim.Fault{Op: sim.OpLoad, GPU: late, Vanish: true}, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := overSysfs(t, "mi300x-8", sim.Options{})
			if err := b.sim.Inject(test.fault); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := b.node.Reload(ctx)
			if err == nil {
				_, err = b.node.all.WaitAfterLoad(ctx)
			}
			if test.want == "" && err != nil || test.want != "" && !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if got := b.node.module.Loaded(); got != test.loaded {
				t.Errorf("loaded: %v", got)
			}
		})
	}
}

// holds starts a process that has the devices open until the test ends.
func (b backend) holds(t *testing.T, names ...string) (pid int, end func()) {
	t.Helper()
	script := ""
	for i, name := range names {
		script += fmt.Sprintf("exec %d<%s/%s; ", i+3, b.sim.Dev, name)
	}
	cmd := exec.Command("/bin/sh", "-c", script+"echo open; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		in.Close()
		cmd.Wait()
	}
	t.Cleanup(end)
	if _, err := io.ReadFull(out, make([]byte, len("open\n"))); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, end
}

// holders lists the holders. It ignores the error for processes of this machine that a security
// module hides.
func (b backend) holders(t *testing.T) []gpu.Holder {
	t.Helper()
	got, err := b.node.Holders(patient(t))
	if err != nil && !errors.Is(err, gpu.ErrPartial) {
		t.Fatal(err)
	}
	return got
}

func TestHolders_Simulator(t *testing.T) {
	b := overSysfs(t, "mi300x-8-bmc", sim.Options{})
	if got := b.holders(t); len(got) != 0 {
		t.Fatalf("holders %v, want none", got)
	}
	render := strings.TrimPrefix(b.devices(t)[1].RenderNodes[0], "/dev/")
	agent, _ := b.holds(t, render, "kfd", "dri/card0")
	b.holds(t, "dri/card0") // the card of the BMC, not a GPU's
	greeter, end := b.holds(t, "dri/card1")
	got := b.holders(t)
	ours := []partition.Vendor{partition.AMD}
	want := []gpu.Holder{
		{PID: agent, Command: "sh", Unit: "", Devices: []string{"/dev/kfd", "/dev/" + render}, Vendors: ours, Attached: []partition.Address{b.devices(t)[1].Address}},
		{PID: greeter, Command: "sh", Unit: "", Devices: []string{"/dev/dri/card1"}, Vendors: ours},
	}
	for i := range got {
		got[i].Unit = "" // depends on the machine of the test
	}
	slices.SortFunc(want, func(a, b gpu.Holder) int { return a.PID - b.PID })
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("holders (-want +got):\n%s", d)
	}
	end()
	if got := b.holders(t); len(got) != 1 {
		t.Errorf("holders %v after one ended, want one", got)
	}
}

// The DRM devices of a GPU's further partitions belong to platform devices.
func TestHolders_SecondaryPartition(t *testing.T) {
	b := overSysfs(t, "mi300x-8", sim.Options{})
	if err := b.node.SetCompute(patient(t), b.devices(t)[0].Address, partition.CPX); err != nil {
		t.Fatal(err)
	}
	second := b.devices(t)[0].RenderNodes[1]
	b.holds(t, strings.TrimPrefix(second, "/dev/"))
	got := b.holders(t)
	if len(got) != 1 || !slices.Equal(got[0].Devices, []string{second}) {
		t.Errorf("holders %+v, want one of %s", got, second)
	}
}
