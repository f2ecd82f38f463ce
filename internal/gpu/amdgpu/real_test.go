package amdgpu

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/sim"
)

// real is a libamd_smi from a Debian package.
type real struct {
	version string
	recipe  e2e.Recipe
	numbers map[partition.Compute]uint32
}

func reals() []real {
	return []real{
		{"24.5.2.0", e2e.OldLibrary(),
			map[partition.Compute]uint32{"SPX": 2, "DPX": 3, "QPX": 5, "CPX": 1}}, // ROCm 6.1.2
		{"27.1.0", e2e.NewLibrary(),
			map[partition.Compute]uint32{"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 5}}, // ROCm 10.1
	}
}

// chroot runs dcm-smi in another root with the simulated node as its /sys. The caller starts it in
// a separate mount namespace.
//
//go:embed testdata/chroot.sh
var chroot string

// install returns an SMI that uses this library on a simulated tree.
func (r real) install(t testing.TB, root, sys string) SMI {
	t.Helper()
	program := smiProgram(t)
	dir := t.TempDir()
	if err := standin.BuildDRM(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("@ROOT@", root, "@SYS@", sys, "@DRM@", dir, "@BIN@", filepath.Dir(program)).Replace(chroot)
	wrapper := filepath.Join(dir, "dcm-smi")
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return SMI{Program: wrapper, Timeout: time.Hour} // the context of a test ends it; see patient
}

// root creates the library's root directory, or skips the test.
func (r real) root(t testing.TB) string {
	t.Helper()
	if os.Getenv("DCM_E2E") != "require" {
		t.Skip("skipped: the real libraries run with DCM_E2E=require, which make test sets")
	}
	if err := e2e.Missing(); err != nil {
		t.Fatal(err)
	}
	root, err := r.recipe.Directory(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// opener starts a node whose modes go through this library.
func (r real) opener(root string) opener {
	return func(t *testing.T, kind string, o sim.Options) backend {
		t.Helper()
		smiProgram(t) // sets TMPDIR
		b := overSysfs(t, kind, o)
		// A reply takes about 1 s, since the library reads thousands of files.
		return b.through(t, r.install(t, root, b.sim.Sys), false, BusyRetry(8*time.Second, 5*time.Millisecond))
	}
}

func TestRealLibrary_Contract(t *testing.T) {
	for _, r := range reals() {
		t.Run(r.version, func(t *testing.T) { contract(t, r.opener(r.root(t))) })
	}
}

func TestRealLibrary_SetMode(t *testing.T) {
	for _, r := range reals() {
		t.Run(r.version, func(t *testing.T) {
			b := r.opener(r.root(t))(t, "mi300x-8", sim.Options{})
			gpu := b.first(t)
			for _, mode := range []partition.Compute{partition.CPX, partition.QPX, partition.DPX, partition.SPX} {
				set, err := b.node.library.smi.SetCompute(patient(t), gpu, mode)
				if err != nil {
					t.Fatal(err)
				}
				if got := b.modes(t)[gpu]; got != string(mode)+"/NPS1" || set.After != string(mode) {
					t.Errorf("set %s, sysfs has %s, the library reads %s", mode, got, set.After)
				}
				if set.Number != r.numbers[mode] || set.Library.Version != r.version {
					t.Errorf("%s is %d in %s, want %d in %s", mode, set.Number, set.Library, r.numbers[mode], r.version)
				}
			}
			for _, mode := range []partition.Memory{partition.NPS4, partition.NPS1} {
				if err := b.node.SetMemory(patient(t), gpu, mode); err != nil {
					t.Fatal(err)
				}
				if err := b.node.Reload(patient(t)); err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("%s/%s", mode.AutoCompute(), mode)
				for a, got := range b.modes(t) {
					if got != want {
						t.Errorf("%s has %s after a reload with %s", a, got, mode)
					}
				}
			}
		})
	}
}

func TestRealLibrary_Enrich(t *testing.T) {
	for _, r := range reals() {
		t.Run(r.version, func(t *testing.T) {
			b := r.opener(r.root(t))(t, "mi300x-8", sim.Options{})
			for _, mode := range []partition.Compute{partition.SPX, partition.CPX} {
				devices := b.devices(t)
				before := litter(t)
				if err := b.node.all.Enrich(patient(t), devices); err != nil {
					t.Fatal(err)
				}
				if after := litter(t); len(after) != len(before) {
					t.Errorf("files that the library left on the host: %v", after)
				}
				for _, d := range devices {
					if d.Serial != d.UniqueID || len(d.UUID) < 36 || !strings.Contains(d.Name, "MI300X") || d.DriverVersion == "" {
						t.Errorf("%s: %+v", mode, d)
					}
					if d.Source["serial"] != "amdsmi "+r.version {
						t.Errorf("%s: serial from %q", d.Address, d.Source["serial"])
					}
				}
				if err := b.node.SetCompute(patient(t), devices[0].Address, partition.CPX); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
