package apply

import (
	"cmp"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/gpu/nvidia"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// migTrial is a cell of the matrix for NVIDIA GPUs: a fault of the library at a step of a run. The
// run destroys and creates the instances of three GPUs, or turns MIG on if the step is a mode.
type migTrial struct {
	step, fault string
	knobs       []string
	keep        bool   // on-failure = "keep"
	to          string // the geometry; "" for that of the step

	result  runstate.Result
	passing bool
	shapes  string
	errText string
}

const (
	create    = "nvmlDeviceCreateGpuInstanceWithPlacement"
	inside    = "nvmlGpuInstanceCreateComputeInstance"
	setMode   = "nvmlDeviceSetMigMode"
	takeApart = "nvmlGpuInstanceDestroy"
	aside     = "0000:52:00.0" // the third
	was       = "3 [3g.40gb@0 1g.10gb@4]"
	off       = "3 [off]"
	oneKept   = "2g.20gb 1g.10gb 1g.10gb" // keeps 1g.10gb@4
	cleared   = "2 [2g.20gb@0 1g.10gb@2 1g.10gb@4] 1 [2g.20gb@0 1g.10gb@2 1g.10gb@3]"
)

func migMatrix() []migTrial {
	return []migTrial{
		{"discover", "hang beyond the deadline", []string{"hang nvmlInit_v2"}, false, "", runstate.Refused, true, "", "no answer in time"},
		{"discover", "it crashes", []string{"abort nvmlDeviceGetMigMode"}, false, "", runstate.Refused, true, "", "ended without an answer"},
		{"discover", "no permission", []string{"fail nvmlInit_v2 4"}, false, "", runstate.Refused, false, "", "no permission"},
		{"discover", "of different versions", []string{"fail nvmlInit_v2 18"}, false, "", runstate.Refused, false, "", "of different versions"},
		{"discover", "garbage", []string{"garbage-mode"}, false, "", runstate.Refused, false, "", "returned modes 5"},

		{"clear", "in use", []string{"fail nvmlComputeInstanceDestroy 19 0 0 " + aside}, false, "", runstate.RolledBack, true, was, aside},
		{"clear", "in use for a moment", []string{"fail " + takeApart + " 19 0 1 " + aside}, false, "", runstate.RolledBack, true, was, aside},
		{"clear", "no permission", []string{"fail nvmlComputeInstanceDestroy 4"}, false, "", runstate.RolledBack, false, was, "no permission"},
		{"clear", "turned off, and reverted a second later", []string{"late-lie " + aside + " mode"}, false, "off", runstate.RolledBack, false, was, `remaining step: "turn MIG off`},
		{"clear", "in use after its compute instance, for long", []string{"fail " + takeApart + " 19 0 0 " + aside}, false, "", runstate.RolledBack, true, was, aside},
		{"clear", "in use after its compute instance, for long, the instances are replaced", []string{"fail " + takeApart + " 19 0 0 " + aside}, false, "2g.20gb 2g.20gb", runstate.RolledBack, true, was, aside},
		{"clear", "the second is in use after its compute instance, for long", []string{"fail " + takeApart + " 19 1 0 " + aside}, false, "", runstate.RolledBack, true, was, aside},
		{"clear", "lost", []string{"fail " + takeApart + " 15 0 0 " + aside, "fail " + inside + " 15 0 0 " + aside}, false, "", runstate.Failed, false, "2 [3g.40gb@0 1g.10gb@4] 1 [empty]", "the undo failed as well"},

		{"clear", "in use, one stays", []string{"fail nvmlComputeInstanceDestroy 19 0 0 " + aside}, false, oneKept, runstate.RolledBack, true, was, aside},
		{"clear", "in use after its compute instance, one stays", []string{"fail " + takeApart + " 19 0 1 " + aside}, false, oneKept, runstate.RolledBack, true, was, aside},
		{"clear", "the second of two is in use", []string{"fail nvmlComputeInstanceDestroy 19 1 1 " + aside}, false, "2g.20gb", runstate.RolledBack, true, was, aside},
		{"clear", "it crashes, one stays", []string{"abort " + takeApart}, false, oneKept, runstate.RolledBack, true, was, "ended without an answer"},

		{"mode", "a reset is required", []string{"mode-activation 16 " + aside}, false, "", runstate.RolledBack, false, off, "reset"},
		{"mode", "in use", []string{"mode-activation 19 " + aside}, false, "", runstate.RolledBack, true, off, "in use"},
		{"mode", "claims success without effect", []string{"mode-nothing"}, false, "", runstate.RolledBack, false, off, "not read back"},
		{"mode", "it waits for a reset", []string{"mode-late"}, false, "", runstate.RolledBack, false, off, "reset"},
		{"mode", "hang beyond the deadline", []string{"hang " + setMode}, false, "", runstate.RolledBack, true, off, "no answer in time"},
		{"mode", "no permission", []string{"fail " + setMode + " 4"}, false, "", runstate.RolledBack, false, off, "no permission"},

		{"fill", "insufficient resources on the third", []string{"fail " + create + " 23 0 1 " + aside}, false, "", runstate.RolledBack, true, was, "insufficient resources"},
		{"fill", "insufficient resources, one stays", []string{"fail " + create + " 23 0 1 " + aside}, false, oneKept, runstate.Applied, false, cleared, ""},
		{"fill", "insufficient resources for the second, one stays", []string{"fail " + create + " 23 1 1 " + aside}, false, oneKept, runstate.Applied, false, cleared, ""},
		{"fill", "insufficient resources inside, one stays", []string{"fail " + inside + " 23 1 1 " + aside}, false, oneKept, runstate.Applied, false, cleared, ""},
		{"fill", "insufficient resources, one stays, keep", []string{"fail " + create + " 23 1 1 " + aside}, true, oneKept, runstate.Applied, false, cleared, ""},
		{"fill", "insufficient resources for long, one stays", []string{"fail " + create + " 23 0 2 " + aside}, false, oneKept, runstate.RolledBack, true, was, "insufficient resources"},
		{"fill", "insufficient resources for long, one stays, keep", []string{"fail " + create + " 23 0 2 " + aside}, true, oneKept, runstate.Failed, true,
			"2 [2g.20gb@0 1g.10gb@2 1g.10gb@4] 1 [empty]", "insufficient resources"},
		{"fill", "it crashes, one stays", []string{"abort " + create}, false, oneKept, runstate.Failed, true, "3 [1g.10gb@4]", "ended without an answer"},
		{"fill", "insufficient resources, keep", []string{"fail " + create + " 23 0 1 " + aside}, true, "", runstate.Failed, true, "2 [7g.80gb@0] 1 [empty]", "insufficient resources"},
		{"fill", "insufficient resources inside", []string{"fail " + inside + " 23 0 1 " + aside}, false, "", runstate.RolledBack, true, was, "insufficient resources"},
		{"fill", "no permission", []string{"fail " + create + " 4 0 3"}, false, "", runstate.RolledBack, false, was, "no permission"},
		{"fill", "it crashes", []string{"abort " + create}, false, "", runstate.Failed, true, "3 [empty]", "ended without an answer"},
		{"fill", "hang beyond the deadline", []string{"hang " + create}, false, "", runstate.Failed, true, "3 [empty]", "no answer in time"},
		{"fill", "in another place", []string{"misplaced"}, false, "2g.20gb", runstate.Failed, false, "", "not read back"},
		{"fill", "claims success without effect", []string{"ghost-compute"}, false, "", runstate.Failed, false, "", "read back"},
	}
}

// migBench is a node of three H100 with the stand-in for NVIDIA's library.
type migBench struct {
	state     string
	sim       *simtest.Node
	proc      string // with no processes but those of [migBench.hold]
	node      *gpu.Node
	reload    bool               // the value of reload-driver
	published func(runstate.Run) // receives each report; may be nil
}

// buildNVML builds dcm-nvml and the stand-in for the library, for all trials.
func buildNVML(t *testing.T) (program, library string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "dcm-nvml")
	cmd := exec.Command("go", "build", "-o", program, "dcm/cmd/dcm-nvml")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build dcm-nvml: %v\n%s", err, text)
	}
	library, err := standin.Build(t.Context(), dir)
	if err != nil {
		t.Skip(err)
	}
	return program, library
}

func newMIGBench(t *testing.T, program, library string) migBench {
	t.Helper()
	return newMIGBenchOf(t, program, library, "h100-8", sim.Options{})
}

func newMIGBenchOf(t *testing.T, program, library, name string, opts sim.Options) migBench {
	t.Helper()
	dir := t.TempDir()
	own := filepath.Join(dir, standin.Name)
	if err := os.Link(library, own); err != nil {
		t.Fatal(err)
	}
	kind, err := sim.LookupKind(name)
	if err != nil {
		t.Fatal(err)
	}
	b := migBench{state: standin.StateOf(own)}
	opts.MIG = b.state
	s := simtest.StartKind(t, kind.Scaled(3), opts)
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	b.update(t, func(s *standin.State) { s.Privileged = false })
	b.sim, b.proc = s, filepath.Join(dir, "proc")
	if err := os.Mkdir(b.proc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.Mount, "proc/driver"), filepath.Join(b.proc, "driver")); err != nil {
		t.Fatal(err)
	}
	roots := gpu.Roots{Sys: s.Sys, Proc: b.proc, Dev: s.Dev}
	b.node = gpu.Open(s.Sys, []gpu.Vendor{nvidia.Open(roots, nvidia.Program(program, own, "--sys", s.Sys, "--dev", s.Dev), nvidia.RequestTimeout(8*time.Second))}, gpu.PollInterval(5*time.Millisecond), gpu.ModulePrograms(s.Modprobe, s.Rmmod))
	return b
}

// hold starts a process that has a device node open. release ends it.
func (b migBench) hold(t *testing.T, device string) (pid int, release func()) {
	t.Helper()
	node, err := os.Open(filepath.Join(b.sim.Dev, device))
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	user := exec.Command("sleep", "infinity")
	user.ExtraFiles = []*os.File{node}
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	pid = user.Process.Pid
	own := strconv.Itoa(pid)
	if err := os.Symlink("/proc/"+own, filepath.Join(b.proc, own)); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = user.Process.Kill()
		_ = user.Wait() // killed
	})
	t.Cleanup(end)
	return pid, func() {
		t.Helper()
		end()
		unused := func(u gpu.Usage) bool { return len(u.Holders) == 0 && u.Drivers[0].Unexplained() == 0 }
		if err := b.node.WaitUsage(t.Context(), unused); err != nil {
			t.Fatal(err)
		}
	}
}

func (b migBench) update(t *testing.T, change func(*standin.State)) {
	t.Helper()
	if err := standin.Update(b.state, func(s *standin.State) error { change(s); return nil }); err != nil {
		t.Fatal(err)
	}
}

// shapes returns the shapes of the GPUs from the state of the library's stand-in.
func (b migBench) shapes(t *testing.T) string {
	t.Helper()
	s, err := standin.Read(b.state)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, g := range s.GPUs {
		m := partition.MIG{Off: !g.Current}
		for _, i := range g.Instances {
			if len(i.Compute) > 0 {
				m.Instances = append(m.Instances, partition.Instance{Profile: i.Profile, Start: i.Start})
			}
		}
		slices.SortFunc(m.Instances, func(a, b partition.Instance) int { return a.Start - b.Start })
		out = append(out, "["+partition.Shape{MIG: &m}.Key()+"]")
	}
	return counted(out)
}

func (b migBench) run(t *testing.T, geometryText string, rollback bool) runstate.Run {
	t.Helper()
	publish := b.published
	if publish == nil {
		publish = func(runstate.Run) {}
	}
	return b.runWith(t, geometryText, rollback, NewRecorder(runstate.Run{ID: "test"}, slog.New(slog.DiscardHandler), publish))
}

func (b migBench) runWith(t *testing.T, geometryText string, rollback bool, rec *Recorder) runstate.Run {
	t.Helper()
	opt := Options{Rollback: rollback, ReloadDriver: b.reload, Load: len(rec.Run().UnloadedModules) > 0, DeviceTimeout: 10 * time.Second, StepTimeout: 30 * time.Second, ReloadTimeout: 10 * time.Second, SettleDelay: 1500 * time.Millisecond}
	p := partition.Profile{Name: "test", Groups: []partition.Group{{MIG: geometry(geometryText), Rest: true}}}
	return Run(t.Context(), nodeOf(b.node, b.node.Drivers()), p, opt, rec)
}

func TestFaultMatrixOfMIG(t *testing.T) {
	program, library := buildNVML(t)
	before := divided(t, newMIGBench(t, program, library))
	for _, c := range migMatrix() {
		t.Run(c.step+"/"+c.fault, func(t *testing.T) {
			t.Parallel()
			b := newMIGBench(t, program, library)
			target := cmp.Or(c.to, "7g.80gb")
			if c.step == "mode" {
				target = "1g.10gb"
			} else {
				b.divide(t, before)
			}
			b.update(t, func(s *standin.State) { s.Knobs = c.knobs })
			run := b.run(t, target, !c.keep)
			trial{result: c.result, passing: c.passing, errText: c.errText}.judge(t, run)
			if got := b.shapes(t); c.shapes != "" && got != c.shapes {
				t.Errorf("the GPUs are %s, want %s", got, c.shapes)
			}
			b.update(t, func(s *standin.State) { s.Knobs = nil })
			if run := b.run(t, target, true); run.Result != runstate.Applied && run.Result != runstate.Unchanged {
				t.Errorf("with the fault gone: %s, %+v", run.Result, run.Error)
			}
		})
	}
}

// divided returns the GPUs of a node on which a run has created instances.
func divided(t *testing.T, b migBench) []standin.GPU {
	t.Helper()
	if run := b.run(t, "3g.40gb 1g.10gb", true); run.Result != runstate.Applied {
		t.Fatalf("before the faults: %s, %+v", run.Result, run.Error)
	}
	s, err := standin.Read(b.state)
	if err != nil {
		t.Fatal(err)
	}
	return s.GPUs
}

// divide gives the GPUs the modes and instances of those of another node. A run would call the library many times.
func (b migBench) divide(t *testing.T, as []standin.GPU) {
	t.Helper()
	b.update(t, func(s *standin.State) {
		for i := range s.GPUs {
			g := &s.GPUs[i]
			g.Current, g.Pending, g.Instances = as[i].Current, as[i].Pending, slices.Clone(as[i].Instances)
		}
	})
}

// If nvidia_drm holds the GPUs, a run that may not unload it is refused and names it. A retry would
// fail too and restart the clients needlessly.
func TestRun_HeldInKernel(t *testing.T) {
	program, library := buildNVML(t)
	for _, modeset := range []bool{true, false} {
		b := newMIGBenchOf(t, program, library, "a100-8", sim.Options{Modeset: modeset})
		run := b.run(t, "1g.10gb", true)
		if !modeset {
			if run.Result != runstate.Applied {
				t.Errorf("without modeset: %s, %+v", run.Result, run.Error)
			}
			continue
		}
		if run.Result != runstate.Refused || run.Error.Transient || !strings.Contains(run.Error.Text, "nvidia_drm is unloaded, and reload-driver is false") ||
			!strings.Contains(run.Error.Hint, "nvidia-drm.modeset=0") {
			t.Errorf("with modeset: %s, %+v", run.Result, run.Error)
		}
	}
}

// A run that may reload drivers unloads nvidia_drm before the GPUs are reset and loads it again. If a
// process keeps it loaded, the process is named and nothing changes.
func TestRun_UnloadsHoldingModule(t *testing.T) {
	program, library := buildNVML(t)
	b := newMIGBenchOf(t, program, library, "a100-8", sim.Options{Modeset: true})
	b.reload = true
	pid, release := b.hold(t, "dri/renderD128")
	run := b.run(t, "1g.10gb", true)
	if run.Result != runstate.Refused || len(run.Holders) != 1 || run.Holders[0].PID != pid {
		t.Errorf("with a process: %s, %+v, holders %+v", run.Result, run.Error, run.Holders)
	}
	release()
	var loaded []bool
	b.published = func(runstate.Run) { loaded = append(loaded, b.node.Drivers().ModuleLoaded("nvidia_drm")) }
	run = b.run(t, "1g.10gb", true)
	if run.Result != runstate.Applied || len(run.UnloadedModules) > 0 || !loaded[len(loaded)-1] || !slices.Contains(loaded, false) {
		t.Errorf("%s, %+v, unloaded %q, loaded at each report: %v", run.Result, run.Error, run.UnloadedModules, loaded)
	}
	if run := b.run(t, "2g.20gb", true); run.Result != runstate.Applied || !b.node.Drivers().ModuleLoaded("nvidia_drm") {
		t.Errorf("instances only: %s, %+v", run.Result, run.Error)
	}
	b.update(t, func(s *standin.State) { s.Knobs = []string{"mode-activation 19 " + aside} })
	if run := b.run(t, "off", true); run.Result != runstate.RolledBack || !b.node.Drivers().ModuleLoaded("nvidia_drm") {
		t.Errorf("a step that fails: %s, %+v, unloaded %q", run.Result, run.Error, run.UnloadedModules)
	}
}

// If a run is killed after any of its reports, the report names each module that is not loaded, and the
// next run loads it.
func TestRun_KilledWithModuleUnloaded(t *testing.T) {
	program, library := buildNVML(t)
	b := newMIGBenchOf(t, program, library, "a100-8", sim.Options{Modeset: true})
	b.reload = true
	unloaded := 0
	b.published = func(r runstate.Run) {
		if !b.node.Drivers().ModuleLoaded("nvidia_drm") {
			unloaded++
			if !HalfReloaded(&r, r.Boot) || !DriverUnloaded(&r, r.Boot, b.node.Drivers()) {
				t.Errorf("report without the module that is unloaded: %+v", r)
			}
		}
	}
	if run := b.run(t, "1g.10gb", true); run.Result != runstate.Applied || unloaded == 0 {
		t.Fatalf("%s, %+v, %d reports with the module unloaded", run.Result, run.Error, unloaded)
	}
	b.published = nil
	if err := b.node.Drivers().UnloadModule(t.Context(), "nvidia_drm"); err != nil {
		t.Fatal(err)
	}
	killed := runstate.Run{ID: "killed", Result: runstate.Running, UnloadedModules: []string{"nvidia_drm"}}
	for name, load := range map[string]func(*Recorder) []string{
		"with a profile": func(rec *Recorder) []string { return b.runWith(t, "1g.10gb", true, rec).UnloadedModules },
		"without": func(rec *Recorder) []string {
			if err := Load(t.Context(), b.node.Drivers(), time.Minute, rec); err != nil {
				t.Error(err)
			}
			return rec.Run().UnloadedModules
		},
	} {
		if err := b.node.Drivers().UnloadModule(t.Context(), "nvidia_drm"); err != nil {
			t.Fatal(err)
		}
		rec := NewRecorder(runstate.Run{ID: name, UnloadedModules: killed.UnloadedModules}, slog.New(slog.DiscardHandler), func(runstate.Run) {})
		if left := load(rec); len(left) > 0 || !b.node.Drivers().ModuleLoaded("nvidia_drm") {
			t.Errorf("%s: left are %q", name, left)
		}
	}
}
