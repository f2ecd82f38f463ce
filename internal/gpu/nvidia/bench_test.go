package nvidia

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// bench is a simulated node with dcm-nvml and the stand-in for the library.
type bench struct {
	*simtest.Node
	t           testing.TB
	node        *gpu.Node
	parts       *parts
	state, proc string // file with the stand-in's state; directory that replaces /proc
	log         string // file with the calls of the library
	rival       string
}

func newBench(t testing.TB, kind string) *bench {
	t.Helper()
	dir := t.TempDir()
	switch err := built.build(); {
	case errors.Is(err, standin.ErrNoCompiler):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	lib := copied(t, dir)
	// dcm-nvml loads the library without privileges.
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, state: standin.StateOf(lib), proc: filepath.Join(dir, "proc"), log: filepath.Join(dir, "log")}
	b.Node = simtest.Start(t, kind, sim.Options{MIG: b.state})
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	b.change(func(s *standin.State) { s.Privileged = false })
	if err := standin.Turn(b.state, "log "+b.log); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.proc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(b.Mount, "proc/driver"), filepath.Join(b.proc, "driver")); err != nil {
		t.Fatal(err)
	}
	b.parts = newParts(gpu.Roots{Sys: b.Sys, Proc: b.proc, Dev: b.Dev}, Program(built.program, lib, "--sys", b.Sys, "--dev", b.Dev), ConflictingUnit(func() string { return b.rival }))
	b.node = gpu.Open(b.Sys, []gpu.Vendor{b.parts.vendor()})
	return b
}

// builder builds dcm-nvml and the stand-in once for all tests.
type builder struct {
	once         sync.Once
	dir          string
	program, lib string
	err          error
}

var built builder

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

func (b *builder) build() error {
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "dcm-nvml-test-"); b.err != nil {
			return
		}
		b.program = filepath.Join(b.dir, "dcm-nvml")
		cmd := exec.Command("go", "build", "-o", b.program, "dcm/cmd/dcm-nvml")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("cannot build dcm-nvml: %w\n%s", err, text)
			return
		}
		b.lib, b.err = standin.Build(context.Background(), b.dir)
	})
	return b.err
}

// copied returns a copy of the library in dir, where its state file is too.
func copied(t testing.TB, dir string) string {
	t.Helper()
	content, err := os.ReadFile(built.lib)
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(dir, standin.Name)
	if err := os.WriteFile(lib, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return lib
}

func (b *bench) change(f func(*standin.State)) {
	b.t.Helper()
	if err := standin.Update(b.state, func(s *standin.State) error { f(s); return nil }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) gpus() []gpu.Device {
	b.t.Helper()
	devices, err := b.node.Devices(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return devices
}

// make plans a geometry for some of the GPUs and executes the plan.
func (b *bench) make(counts map[string]int, which ...int) error {
	b.t.Helper()
	m := partition.MIG{Off: true}
	if counts != nil {
		var err error
		if m, err = partition.NewMIG(counts); err != nil {
			b.t.Fatal(err)
		}
	}
	for {
		devices := b.gpus()
		want := partition.Layout{Shapes: make(map[partition.Address]partition.Shape)}
		for _, i := range which {
			want.Shapes[devices[i].Address] = partition.Shape{MIG: &m}
		}
		steps, err := partition.Plan(want, gpu.Partitionable(devices))
		if err != nil || len(steps) == 0 {
			return err
		}
		now, _ := steps.NextBatch()
		if err := b.node.Execute(b.t.Context(), now, func(partition.Step, bool, error) {}); err != nil {
			return err
		}
	}
}

// calls returns the number of library calls by GPU, with the loads of the library under "-", and
// resets the counts.
func (b *bench) calls() map[string]int {
	b.t.Helper()
	text, err := os.ReadFile(b.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	os.Remove(b.log)
	out := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "nvmlShutdown" {
			out[fields[1]]++
		}
	}
	return out
}
