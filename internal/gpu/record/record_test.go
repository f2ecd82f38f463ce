package record_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu"
	"dcm/internal/gpu/amdgpu"
	"dcm/internal/gpu/nvidia"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/gpu/record"
	"dcm/internal/testkit/sim"
	"dcm/internal/testkit/sim/simtest"
)

// node is a simulated node with the readers of both vendors.
type node struct {
	*simtest.Node
	source record.Source
}

// start mounts a kind of node. nvml is dcm-nvml and its library, nil without them.
func start(t *testing.T, k sim.Kind, nvml []string, o sim.Options) node {
	t.Helper()
	lib := ""
	if nvml != nil {
		lib = filepath.Join(readable(t, t.TempDir()), standin.Name)
		content, err := os.ReadFile(nvml[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lib, content, 0o755); err != nil {
			t.Fatal(err)
		}
		o.MIG = standin.StateOf(lib)
	}
	n := simtest.StartKind(t, k, o)
	if err := n.Begin(); err != nil {
		t.Fatal(err)
	}
	roots := gpu.Roots{Sys: n.Sys, Proc: filepath.Join(n.Mount, "proc"), Dev: n.Dev}
	vendors := []gpu.Vendor{amdgpu.Open(roots)}
	s := record.Source{Roots: roots, Program: "1.2.3", Kernel: "6.12.0-gpubox", Host: "gpubox.example.com", Library: lib}
	if nvml != nil {
		if err := standin.Update(o.MIG, func(s *standin.State) error { s.Privileged = false; return nil }); err != nil {
			t.Fatal(err)
		}
		s.NVML = []string{nvml[0], "--sys", n.Sys, "--dev", n.Dev}
		vendors = append(vendors, nvidia.Open(roots, nvidia.Program(nvml[0], lib, s.NVML[1:]...)))
	}
	s.Node = gpu.Open(n.Sys, vendors)
	return node{n, s}
}

// readable lets other users search a directory of the test: dcm-nvml has no privileges.
func readable(t *testing.T, dir string) string {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// devices returns all devices with their details.
func (n node) devices(t *testing.T) []gpu.Device {
	t.Helper()
	all, err := n.source.Node.Devices(t.Context())
	if err := errors.Join(err, n.source.Node.ReadDetails(t.Context(), all)); err != nil {
		t.Fatal(err)
	}
	return all
}

// library builds dcm-nvml and the stand-in of NVIDIA's library.
func library(t *testing.T) []string {
	t.Helper()
	dir := readable(t, t.TempDir())
	lib, err := standin.Build(t.Context(), dir)
	if errors.Is(err, standin.ErrNoCompiler) {
		t.Skip("skipped: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "dcm-nvml")
	build := exec.Command("go", "build", "-o", program, "dcm/cmd/dcm-nvml")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return []string{program, lib}
}

// replayed takes a record and mounts the node that it describes.
func replayed(t *testing.T, n node, nvml []string) (record.Record, node) {
	t.Helper()
	r := record.Take(t.Context(), n.source, time.Unix(0, 0))
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "node.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return r, start(t, kind(t, file), nvml, sim.Options{})
}

func kind(t *testing.T, name string) sim.Kind {
	t.Helper()
	k, err := sim.LookupKind(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRecord_Replay(t *testing.T) {
	nvml := library(t)
	for _, test := range []struct {
		kind   string
		memory partition.Memory
		to     partition.Compute
		usage  sim.UsageFormat
	}{
		{"mi300x-8", partition.NPS4, partition.CPX, ""}, {"mi300x-8-bmc", "", "", ""}, {"mi300a-4", "", partition.TPX, sim.UsageGPU16}, {"mi300x-vf-8", "", "", ""}, {"unknown-8", "", "", sim.UsageAttributes},
		{"unknown-8", partition.NPS2, partition.DPX, ""}, {"mi210-2", "", "", ""}, {"h100-8", "", "", ""}, {"a30-4", "", "", ""}, {"mi300x-4+h100-4", "", "", ""},
	} {
		t.Run(strings.TrimSpace(test.kind+" "+string(test.to)+" "+string(test.memory)), func(t *testing.T) {
			t.Parallel()
			n := start(t, kind(t, test.kind), nvml, sim.Options{Memory: test.memory, UsageFormat: test.usage})
			if test.to != "" {
				for _, g := range gpu.Partitionable(n.devices(t)) {
					if err := n.SetCompute(t.Context(), g.Address, string(test.to)); err != nil && g.Compute != test.to {
						t.Fatal(err)
					}
				}
			}
			before := n.devices(t)
			r, again := replayed(t, n, nvml)
			if diff := cmp.Diff(before, again.devices(t)); diff != "" {
				t.Errorf("the replayed node differs:\n%s", diff)
			}
			if len(r.GPUs) != len(gpu.Partitionable(before)) || len(r.Errors) > 0 {
				t.Errorf("%d GPUs are recorded, errors %q", len(r.GPUs), r.Errors)
			}
			took := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Took" }, cmp.Ignore())
			if diff := cmp.Diff(r.Files, record.Take(t.Context(), again.source, time.Unix(0, 0)).Files, took); diff != "" {
				t.Errorf("the record of the replayed node differs:\n%s", diff)
			}
		})
	}
}

func TestRecord_NoNames(t *testing.T) {
	n := start(t, kind(t, "mi300x-4+h100-4"), library(t), sim.Options{})
	r := record.Take(t.Context(), n.source, time.Unix(0, 0))
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"gpubox", "PCB0"}
	for _, d := range n.devices(t) {
		for _, s := range []string{d.UniqueID, d.UUID, d.Serial} {
			if s != "" {
				secrets = append(secrets, s)
			}
		}
	}
	if len(secrets) < 10 {
		t.Fatalf("the node has too few ids: %q", secrets)
	}
	for _, s := range secrets {
		if strings.Contains(strings.ToLower(string(text)), strings.ToLower(s)) {
			t.Errorf("the record has %s", s)
		}
	}
	if r.Kernel != "6.12.0-HOST" {
		t.Errorf("the kernel is %s", r.Kernel)
	}
	if state := n.State(); state.ComputeWrites+state.MemoryWrites > 0 {
		t.Errorf("the record wrote to the driver: %+v", state)
	}
}

func TestRecord_ReadError(t *testing.T) {
	n := start(t, kind(t, "mi300x-8"), nil, sim.Options{})
	f := sim.Fault{Op: sim.OpRead, GPU: "0000:26:00.0", File: "current_memory_partition", Always: true}
	if err := f.Errno.UnmarshalText([]byte("EIO")); err != nil {
		t.Fatal(err)
	}
	if err := n.Inject(f); err != nil {
		t.Fatal(err)
	}
	r, again := replayed(t, n, nil)
	if got := r.Attribute("0000:26:00.0", "current_memory_partition"); got == nil || got.Error != "EIO" {
		t.Errorf("recorded %+v", got)
	}
	_, before := n.source.Node.Devices(t.Context())
	_, after := again.source.Node.Devices(t.Context())
	if before == nil || after == nil || strings.ReplaceAll(before.Error(), n.Sys, "") != strings.ReplaceAll(after.Error(), again.Sys, "") {
		t.Errorf("the errors are %v and %v", before, after)
	}
}

func TestNode_File(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"other.json": "{}", "text.json": "no JSON", "none.json": `{"version": 1}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"other.json": "unknown version", "text.json": "not a record", "none.json": "no partitionable GPU", "absent.json": "no such file"} {
		if _, err := record.Node(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if gpus, err := record.Node("mi300x-8"); err != nil || len(gpus) != 8 {
		t.Errorf("a kind: %d GPUs, %v", len(gpus), err)
	}
}

// The records of real boards replay: a node of each one has the recorded GPUs.
func TestRecord_RealBoards(t *testing.T) {
	nvml := library(t)
	files, err := filepath.Glob("../../testkit/testedon/records/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r record.Record
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			again := record.Take(t.Context(), start(t, kind(t, file), nvml, sim.Options{}).source, time.Unix(0, 0))
			if diff := cmp.Diff(r.GPUs, again.GPUs); diff != "" {
				t.Errorf("(-recorded +replayed):\n%s", diff)
			}
		})
	}
}
