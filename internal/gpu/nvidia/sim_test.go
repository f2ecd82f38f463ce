package nvidia

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
)

// shapes returns the geometry of each GPU as text.
func (b *bench) shapes() []string {
	b.t.Helper()
	var out []string
	for _, d := range b.gpus() {
		out = append(out, d.Shape().String())
	}
	return out
}

func TestExecute_EveryBoard(t *testing.T) {
	for kind, ways := range map[string][]map[string]int{
		"h100-8":         {{"1g.10gb": 7}, {"7g.80gb": 1}, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, {"1g.20gb": 4}, {"4g.40gb": 1, "1c.3g.40gb": 3}, {}},
		"a100-8":         {{"1g.10gb": 7}, {"7g.80gb": 1}, {"3g.40gb": 2}, {"2g.20gb": 3}, {"1g.10gb": 6, "1g.10gb+me": 1}, {}},
		"a30-4":          {{"1g.6gb": 4}, {"2g.12gb": 2}, {"4g.24gb": 1}, {"2g.12gb": 1, "1g.6gb": 2}, {"1g.6gb": 3, "1g.6gb+me": 1}},
		"b200-8":         {{"1g.23gb": 7}, {"7g.180gb": 1}, {"3g.90gb": 2}, {"1g.45gb": 4}, {"4g.90gb": 1, "2g.45gb": 1, "1g.23gb": 1}},
		"gb300-4":        {{"1g.35gb": 7}, {"3g.139gb": 2}, {"4g.139gb": 1, "2g.70gb": 1, "1g.35gb": 1}},
		"b300-8":         {{"1g.34gb": 7}, {"3g.135gb": 2}, {"7g.269gb": 1}},
		"rtx-pro-4500-4": {{"1g.16gb": 2}, {"2g.32gb": 1}},
		"rtx-pro-6000-4": {{"1g.24gb": 4}, {"2g.48gb": 2}, {"4g.96gb": 1}, {"1g.24gb+gfx": 4}, {"1g.24gb+me.all": 1, "1g.24gb-me": 3}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kind)
			for _, counts := range append(ways, nil) {
				if err := b.make(counts, 1); err != nil {
					t.Fatalf("%v: %v", counts, err)
				}
				want := partition.MIG{Off: true}
				if counts != nil {
					want, _ = partition.NewMIG(counts)
				}
				d := b.gpus()[1]
				if d.MIG == nil || !d.MIG.Same(want) {
					t.Errorf("%v: it is %s", counts, d.Shape())
				}
			}
			if got := b.shapes(); slices.ContainsFunc(got, func(s string) bool { return s != "MIG off" }) {
				t.Errorf("at the end: %q", got)
			}
		})
	}
}

func TestExecute_OneGPU(t *testing.T) {
	b := newBench(t, "h100-8")
	devices := b.gpus()
	b.calls()
	m, _ := partition.NewMIG(map[string]int{"1g.10gb": 7})
	plan := func() partition.Steps {
		steps, err := partition.Plan(partition.Layout{Shapes: map[partition.Address]partition.Shape{devices[2].Address: {MIG: &m}}}, gpu.Partitionable(b.gpus()))
		if err != nil {
			t.Fatal(err)
		}
		b.calls()
		return steps
	}
	for steps := plan(); len(steps) > 0; steps = plan() {
		now, _ := steps.NextBatch()
		if err := b.node.Execute(t.Context(), now, func(partition.Step, bool, error) {}); err != nil {
			t.Fatal(err)
		}
		for address := range b.calls() {
			if address != "-" && address != string(devices[2].Address) {
				t.Errorf("calls of the library for %[2]s: %[1]q, want none", now, address)
			}
		}
	}
}

func TestDescribe_NoModule(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.UnloadNVIDIA(); err != nil {
		t.Fatal(err)
	}
	for _, d := range b.gpus() {
		if d.SkipReason != notLoaded || d.Model != "H100-80GB" {
			t.Errorf("%s: %q, model %s", d.Address, d.SkipReason, d.Model)
		}
	}
	if devices, err := b.node.Wait(t.Context()); err != nil || len(devices) != 8 {
		t.Errorf("Wait without the module: %v, want no delay of the boot", err)
	}
	if got := b.calls(); len(got) > 0 {
		t.Errorf("called: %v", got)
	}
	if err := b.LoadNVIDIA(); err != nil {
		t.Fatal(err)
	}
	if got := b.shapes(); len(got) != 8 || got[0] != "MIG off" {
		t.Errorf("with the module the GPUs are %q", got)
	}
}

func TestDescribe_AfterReboot(t *testing.T) {
	for kind, want := range map[string]string{"h100-8": "MIG off", "a100-8": "MIG on, empty", "b200-8": "MIG off"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kind)
			profile := map[string]string{"b200-8": "1g.23gb"}[kind]
			if profile == "" {
				profile = "1g.10gb"
			}
			if err := b.make(map[string]int{profile: 7}, 0); err != nil {
				t.Fatal(err)
			}
			before := b.parts.host.migFingerprint()
			if !strings.Contains(before, "gpu0/mig/gi") {
				t.Errorf("a glance shows %q", before)
			}
			b.change((*standin.State).Reboot)
			if got := b.shapes()[0]; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if now := b.parts.host.migFingerprint(); now == before {
				t.Errorf("a glance still shows %q", now)
			}
		})
	}
}

// holder is a process that has a file open until the test ends.
func (b *bench) holder(files ...string) int {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "sleep", "infinity")
	for _, f := range files {
		open, err := os.OpenFile(filepath.Join(b.Dev, f), os.O_RDWR, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		defer open.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, open)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	pid := cmd.Process.Pid
	if err := os.Symlink(fmt.Sprintf("/proc/%d", pid), filepath.Join(b.proc, fmt.Sprint(pid))); err != nil {
		b.t.Fatal(err)
	}
	return pid
}

func TestExecute_GPUInUse(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"1g.10gb": 7}, 0, 1); err != nil {
		t.Fatal(err)
	}
	pid := b.holder("nvidiactl", "nvidia1")
	u, err := b.node.Usage(t.Context())
	if err != nil || len(u.Holders) != 1 || u.Holders[0].PID != pid || u.ForVendor(partition.NVIDIA).Unexplained() != 0 {
		t.Fatalf("usage %+v, %v", u, err)
	}
	devices := b.gpus()
	for i, want := range []int{0, 1} {
		if got := gpu.Blockers(partition.Steps{{Kind: partition.DestroyInstances, GPU: devices[i].Address}}, devices, u.Holders); len(got) != want {
			t.Errorf("holders that block GPU %d: %+v", i, got)
		}
	}
	if err := b.make(nil, 0); err != nil {
		t.Errorf("the other GPU: %v", err)
	}
	err = b.make(nil, 1)
	if !errors.Is(err, unix.EBUSY) || !gpu.IsTransient(err) || !strings.Contains(gpu.Hint(err), "dcm holders") {
		t.Errorf("error %v, transient %t, hint %q", err, gpu.IsTransient(err), gpu.Hint(err))
	}
}

func TestExecute_Errors(t *testing.T) {
	for name, test := range map[string]struct {
		given        func(*bench)
		text, hint   string
		transient    bool
		reboots, why bool
	}{
		"a reset is required": {func(b *bench) { b.turn("mode-activation 16") }, "reset", "reboot", false, true, false},
		"an instance does not fit": {func(b *bench) { b.turn("fail nvmlDeviceCreateGpuInstanceWithPlacement 23") },
			"insufficient resources", "dcm apply", true, false, false},
		"the driver asks for more rights": {func(b *bench) { b.turn("fail nvmlDeviceCreateGpuInstanceWithPlacement 4") },
			"permission", "CAP_SYS_ADMIN", false, false, false},
		"the library crashes":                 {func(b *bench) { b.turn("abort nvmlDeviceCreateGpuInstanceWithPlacement") }, "ended without an answer", "kernel log", true, false, false},
		"a created instance is not read back": {func(b *bench) { b.turn("ghost-compute") }, "read back", "", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "h100-8")
			test.given(b)
			err := b.make(map[string]int{"1g.10gb": 7}, 0)
			if err == nil || !strings.Contains(err.Error(), test.text) || !strings.Contains(gpu.Hint(err), test.hint) || gpu.IsTransient(err) != test.transient || gpu.NeedsReboot(err) != test.reboots {
				t.Errorf("error %v\nhint %q, transient %t, reboots %t", err, gpu.Hint(err), gpu.IsTransient(err), gpu.NeedsReboot(err))
			}
		})
	}
}

func (b *bench) turn(knobs ...string) {
	b.t.Helper()
	if err := standin.Turn(b.state, knobs...); err != nil {
		b.t.Fatal(err)
	}
}

func TestPlan_BlockedGPU(t *testing.T) {
	for name, test := range map[string]struct {
		kind  string
		given func(*bench)
		want  string
	}{
		"a vGPU":                           {"h100-vgpu-2", func(*bench) {}, "virtual GPU"},
		"an Ampere in a virtual machine":   {"a100-8", func(b *bench) { b.change(func(s *standin.State) { s.GPUs[0].Virtualization = 1 }) }, "passed-through"},
		"another unit that configures MIG": {"h100-8", func(b *bench) { b.rival = "nvidia-mig-manager.service" }, "systemctl mask --now nvidia-mig-manager.service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, test.kind)
			test.given(b)
			err := b.make(map[string]int{"1g.10gb": 7}, 0)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// With MIG on, instances of an Ampere GPU in a virtual machine can be changed: that needs no reset.
func TestExecute_AmpereInVM(t *testing.T) {
	b := newBench(t, "a100-8")
	b.change(func(s *standin.State) {
		g := &s.GPUs[0]
		g.Virtualization, g.Current, g.Pending = 1, true, true
	})
	if err := b.make(map[string]int{"1g.10gb": 7}, 0); err != nil {
		t.Fatal(err)
	}
	if got := b.shapes()[0]; got != "7 × 1g.10gb" {
		t.Errorf("it is %s", got)
	}
	err := b.make(nil, 0)
	if err == nil || !strings.Contains(err.Error(), "passed-through") {
		t.Errorf("MIG turned off: %v", err)
	}
}

func TestDescribe_LostGPU(t *testing.T) {
	b := newBench(t, "h100-8")
	b.change(func(s *standin.State) { s.GPUs[3].Lost = true })
	devices, err := b.node.Wait(t.Context())
	if err != nil || !strings.Contains(devices[3].SkipReason, "lost") || len(gpu.Partitionable(devices)) != 7 {
		t.Errorf("error %v, %q, %d are left", err, devices[3].SkipReason, len(gpu.Partitionable(devices)))
	}
}

func TestExecute_HollowInstances(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"3g.40gb": 1}, 0); err != nil {
		t.Fatal(err)
	}
	b.change(func(s *standin.State) { s.GPUs[0].Instances[0].Compute = nil })
	if got := b.shapes()[0]; got != "MIG on, empty" {
		t.Errorf("an instance without compute instances is read as %s", got)
	}
	if err := b.make(map[string]int{"7g.80gb": 1}, 0); err != nil {
		t.Fatal(err)
	}
	if got := b.shapes()[0]; got != "7g.80gb" {
		t.Errorf("then it is %s", got)
	}
}

// If dcm-nvml is missing, waiting does not help: the boot is not delayed, and the hint names the
// package to install.
func TestDescribe_NoProgram(t *testing.T) {
	b := newBench(t, "h100-8")
	b.parts.client.program = filepath.Join(t.TempDir(), "dcm-nvml")
	devices, err := b.node.Wait(t.Context())
	if err != nil || len(devices) != 8 || !strings.Contains(devices[0].SkipReason, "cannot start it") || len(gpu.Partitionable(devices)) > 0 {
		t.Errorf("%v, %q", err, devices[0].SkipReason)
	}
	b.parts.client.program = ""
	if hint, transient := explain(&Error{Kind: noProgram}); transient || !strings.Contains(hint, "package") {
		t.Errorf("transient %t, hint %q", transient, hint)
	}
}

func TestRequest_Timeout(t *testing.T) {
	b := newBench(t, "h100-8")
	b.turn("hang nvmlDeviceGetMigMode")
	b.parts.client.timeout = 1e9
	ctx, cancel := context.WithTimeout(t.Context(), 3e9)
	defer cancel()
	_, err := b.node.Wait(ctx)
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v", err)
	}
}

// A process that must not open a GPU's node reports the GPU as inaccessible, not as missing or
// not partitionable.
func TestDescribe_AccessDenied(t *testing.T) {
	for _, how := range []string{"unlisted", "log /dev/null"} {
		b := newBench(t, "h100-8")
		dev := t.TempDir()
		for _, name := range []string{"nvidiactl", "nvidia0", "nvidia1", "nvidia2", "nvidia4", "nvidia5", "nvidia6", "nvidia7"} {
			if err := os.WriteFile(filepath.Join(dev, name), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		// Without capabilities, this process cannot follow the link into /proc of another process.
		if err := os.Symlink("/proc/1/root/x", filepath.Join(dev, "nvidia3")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dev, 0o755); err != nil {
			t.Fatal(err)
		}
		b.parts.client.args = []string{"--sys", b.Sys, "--dev", dev}
		b.turn(how, "nodes "+dev+" 509")
		for i, d := range b.gpus() {
			if d.AccessDenied != (i == 3) || (d.SkipReason != "") != (i == 3) {
				t.Errorf("%s: GPU %d: access denied %t, %q", how, i, d.AccessDenied, d.SkipReason)
			}
		}
	}
	b := newBench(t, "h100-8")
	b.change(func(s *standin.State) { s.GPUs[3].Lost = true })
	if d := b.gpus()[3]; d.AccessDenied {
		t.Errorf("a lost GPU is reported as inaccessible: %q", d.SkipReason)
	}
	b = newBench(t, "h100-8")
	b.turn(fmt.Sprintf("fail nvmlDeviceGetHandleByPciBusId_v2 %d 0 0 %s", nvml.StatusNotFound, b.gpus()[3].Address))
	for i, d := range b.gpus() {
		if d.AccessDenied || (d.SkipReason != "") != (i == 3) {
			t.Errorf("a GPU that the driver did not bring up: GPU %d: access denied %t, %q", i, d.AccessDenied, d.SkipReason)
		}
	}
}

// In the guest of a vGPU the reason is shown, whether the driver reports MIG there or not.
func TestDescribe_VGPU(t *testing.T) {
	b := newBench(t, "h100-vgpu-2")
	b.change(func(s *standin.State) { s.GPUs[1].MIG = false })
	devices, err := b.node.Devices(t.Context())
	if err != nil || len(devices) != 2 {
		t.Fatalf("%d devices, %v", len(devices), err)
	}
	if d := devices[0]; !d.Guest || d.GeometryBlocked != vGPUGuest {
		t.Errorf("with MIG: guest %t, %q", d.Guest, d.GeometryBlocked)
	}
	if d := devices[1]; !d.Guest || d.SkipReason != noMIG+": "+vGPUGuest {
		t.Errorf("without MIG: guest %t, %q", d.Guest, d.SkipReason)
	}
}
