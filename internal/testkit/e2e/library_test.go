package e2e_test

import (
	"os"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/amdsmi/standin"
	"dcm/internal/testkit/e2e"
)

// rocm is the directory of the library in AMD's packages.
const rocm = "/opt/rocm/lib/libamd_smi.so.27"

// library tests changes through libamd_smi, in the sandbox of the unit.
func library(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, p)
			m.withLibrary("version 27.1.0")
			m.ready()
			m.setThroughLibrary()
			m.toldByLibrary()
			m.refusedByLibrary()
			if recipe.Suite == e2e.Trixie().Suite {
				m.throughAllModes()
				m.libraryLies()
			} else {
				m.namedInASelftest()
				m.killedInASelftest()
			}
		})
	}
}

// withLibrary installs the stand-in of the latest version of the library on the node.
func (m machine) withLibrary(knobs ...string) {
	m.t.Helper()
	lib, err := standin.Build(m.t.Context(), m.t.TempDir(), standin.Latest())
	if err != nil {
		m.t.Fatal(err)
	}
	content, err := os.ReadFile(lib)
	if err != nil {
		m.t.Fatal(err)
	}
	m.put(rocm, string(content))
	m.put(rocm+".knobs", strings.Join(append(knobs, "sys /sys", "log /run/dcm/library", "litter"), "\n")+"\n")
}

func (m machine) setThroughLibrary() {
	m.t.Helper()
	m.run("rm -f /run/dcm/library")
	m.put(settings, selecting("spx-fast")+"[gpu]\nbackend = \"amdsmi\"\n")
	m.applied("spx-fast")
	if got := m.run("sort /run/dcm/library | cut -d' ' -f2- | uniq -c | xargs"); got != "8 SPX 1" {
		m.t.Errorf("modes set by the library: want 8 SPX, got %s", got)
	}
	if run := m.lastRun(); run.Result != runstate.Applied {
		m.t.Errorf("run: want applied, got %s: %+v", run.Result, run.Error)
	}
	if got := m.run("find /tmp /var/tmp /dev/shm -name 'rocm*' -not -path '*/systemd-private-*'"); got != "" {
		m.t.Errorf("files of the library on the host: want none, got %s", got)
	}
}

func (m machine) toldByLibrary() {
	m.t.Helper()
	if got := m.run("dcm gpus"); !strings.Contains(got, "AMD Instinct MI300X") || !strings.Contains(got, "amdsmi 27.1.0") {
		m.t.Errorf("dcm gpus: want the name and the library, got:\n%s", got)
	}
	if got := m.run("dcm version"); !strings.Contains(got, "amdsmi 27.1.0, "+rocm) {
		m.t.Errorf("dcm version: want the library, got:\n%s", got)
	}
	uid := m.run("useradd eve && chown eve /opt/rocm && id --user eve")
	if r := m.try("dcm gpus"); strings.Contains(r.Stdout, "AMD Instinct") || !hasAll(r.Stderr, "/opt/rocm,", "user "+uid+" ") {
		m.t.Errorf("dcm gpus with a library in a directory of eve: want it refused, got:\n%s%s", r.Stdout, r.Stderr)
	}
	m.run("chown root /opt/rocm")
}

// refusedByLibrary: with an unknown version no mode is set, and the error names it.
func (m machine) refusedByLibrary() {
	m.t.Helper()
	m.put(rocm+".knobs", "version 99.0.0\nsys /sys\n")
	before := m.modes()
	m.put(settings, selecting("cpx-fast")+"[gpu]\nbackend = \"amdsmi\"\n")
	m.await("/run/dcm/state.json", "libamd_smi", "99.0.0")
	for gpu, mode := range m.modes() {
		if before[gpu] != mode {
			m.t.Errorf("mode of %s: want %s, got %s", gpu, before[gpu], mode)
		}
	}
}
