package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
)

// simulated sets the kind of the simulated node from the next boot on.
const simulated = "/etc/e2e/kind"

func kindOf(kind string) string { return "KIND=" + kind + "\nSIM_OPTIONS=--mig=" + e2e.MIGState + "\n" }

// nvidiaNode boots a node of a kind with NVIDIA GPUs and installs the package on it.
func nvidiaNode(t *testing.T, recipe e2e.Recipe, p product, kind, lib string, more e2e.Seed) machine {
	t.Helper()
	seed := e2e.Seed{simulated: {Content: []byte(kindOf(kind))}}
	maps.Copy(seed, more)
	if err := seed.NVIDIA(lib); err != nil {
		t.Fatal(err)
	}
	return installWith(t, recipe, p, seed)
}

// nvidia tests MIG: all faults on H100, and the differences of other boards.
func nvidia(t *testing.T, p product) {
	t.Parallel()
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := nvidiaNode(t, recipe, p, "h100-8", lib, driverlessNVIDIA())
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"restart applies the geometry once", migByRestart},
				{"number of library calls", migCounted},
				{"all geometries", func(m machine) { m.through("h100-8"); m.imports() }},
				{"rollback after one GPU fails", migFails},
				{"external change repaired", migDrift},
				{"holder delays the change", migHeld},
				{"instances stay in a change", migStays},
				{"no change with nvidia-mig-manager enabled", migRival},
				{"oneshot and daemon killed", migKilled},
				{"driver unloaded and loaded", migDriver},
				{"real device nodes", migNodes},
				{"reservations of whole GPUs", wholeReserved},
				{"reservations of MIG devices", devicesReserved},
				{"leases confined to MIG devices", devicesLeased},
				{"CDI by nvidia-cdi-refresh", cdiRefreshed},
				{"geometry restored after a reboot", migRebooted},
				{"hardware kit", migKit},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
	for _, recipe := range suites() {
		t.Run("modeset/"+recipe.Suite, func(t *testing.T) {
			t.Parallel()
			more := driverlessNVIDIA()
			more[simulated] = e2e.File{Content: []byte(strings.TrimSpace(kindOf("a100-8")) + " --modeset\n")}
			m := nvidiaNode(t, recipe, p, "a100-8", lib, more)
			t.Run("nvidia_drm unloaded for a change", func(t *testing.T) { migDisplay(m.in(t)) })
		})
	}
	// Tests of boards do not depend on systemd's version.
	others := []e2e.Recipe{e2e.Trixie()}
	if os.Getenv(everyWay) != "" {
		others = suites()
	}
	for _, recipe := range others {
		t.Run("boards/"+recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := nvidiaNode(t, recipe, p, "a30-4", lib, nil)
			for _, kind := range []string{"a30-4", "rtx-pro-6000-4", "b200-8", "a100-8"} {
				t.Run(kind, func(t *testing.T) { m.in(t).becomes(kind) })
				if kind == "a30-4" {
					t.Run("self-test", func(t *testing.T) { m.in(t).throughGeometries() })
				}
			}
			t.Run("A100 keeps its MIG mode", func(t *testing.T) { migKept(m.in(t)) })
		})
		t.Run("mixed/"+recipe.Suite, func(t *testing.T) {
			t.Parallel()
			seed := driverless()
			maps.Copy(seed, driverlessNVIDIA())
			seed[nodeless] = e2e.File{}
			m := nvidiaNode(t, recipe, p, "mi300x-4+h100-4", lib, seed)
			t.Run("both vendors in one transaction", func(t *testing.T) { bothVendors(m.in(t)) })
			if os.Getenv(everyWay) != "" {
				t.Run("reservations by vendor", func(t *testing.T) { bothReserved(m.in(t)) })
			}
		})
	}
}

// becomes changes the kind of the node and applies all geometries of that kind.
func (m machine) becomes(kind string) {
	m.t.Helper()
	if text := kindOf(kind); m.run("cat "+simulated) != strings.TrimSpace(text) {
		m.put(settings, geometries("off", nil))
		m.put(simulated, text)
		m.reboot()
	}
	m.through(kind)
	m.imports()
}

// imports: the built-in profiles of mig-parted are imported. Those that fit these GPUs are
// planned, the others are listed.
func (m machine) imports() {
	m.t.Helper()
	if os.Getenv(everyWay) == "" {
		return
	}
	own, err := os.ReadFile("../../engine/config/testdata/mig-parted.yaml")
	if err != nil {
		m.t.Fatal(err)
	}
	m.put("/root/config.yaml", string(own))
	const imported = "/etc/dcm/dcm.toml.d/10-mig.toml"
	m.run("dcm import /root/config.yaml >" + imported)
	fits, others := 0, 0
	for line := range strings.Lines(m.run("dcm check")) {
		f := strings.Fields(strings.Replace(line, " *", "", 1))
		if len(f) < 3 || f[0] == "PROFILE" || f[1] != "yes" && f[1] != "no" {
			continue
		}
		r := m.try("dcm plan " + f[0])
		if f[1] == "yes" && (r.Code != 0 && r.Code != 2 || !strings.Contains(r.Stdout, f[0])) || f[1] == "no" && r.Code != 1 {
			m.t.Errorf("dcm plan %s (fits: %s): got exit status %d\n%s%s", f[0], f[1], r.Code, r.Stdout, r.Stderr)
		}
		if f[1] == "yes" {
			fits++
		} else {
			others++
		}
	}
	m.t.Logf("built-in profiles of mig-parted: %d are planned, %d do not fit", fits, others)
	if fits < 6 {
		m.t.Errorf("profiles that fit: want at least 6, got %d", fits)
	}
	m.run("rm " + imported + "; systemctl reload dcm")
}

func migByRestart(m machine) {
	m.chosen("small", of80())
	m.divided("7 × 1g.10gb", 7)
	if run := m.lastRun(); run.Result != runstate.Applied || len(run.Steps) != 16 {
		m.t.Errorf("run: want applied with 16 steps, got %s with %d", run.Result, len(run.Steps))
	}
	if got := m.run("ls /dev/nvidia-caps | wc -l"); got != fmt.Sprint(2+8*7*2) {
		m.t.Errorf("nodes of instances: got %s", got)
	}
	if p := decode[runstate.Partitions](m, "partitions.json"); len(p.Parts) != 8*7 || len(p.Parts[0].Companions) != 5 || !strings.Contains(p.Parts[0].Render, "/dev/nvidia-caps/nvidia-cap") {
		m.t.Errorf("partitions.json: want 56 with their nodes, got %d, %+v", len(p.Parts), p.Parts)
	}
	if got := m.run("dcm partitions; cat /run/cdi/dcm.json"); !strings.Contains(got, "0000:df:00.0-6") || !strings.Contains(got, "/dev/nvidiactl") {
		m.t.Errorf("partitions and CDI file: want all, got:\n%s", got)
	}
	if got := m.run("busctl get-property org.deviceconfig.Manager1 /org/deviceconfig/Manager1 org.deviceconfig.Manager1 Profiles"); !strings.Contains(got, `"all-balanced"`) {
		m.t.Errorf("Profiles: want all-balanced, got %s", got)
	}
	unit := m.show("dcm-apply.service", "CapabilityBoundingSet", "After", "Before")
	if !strings.Contains(unit["CapabilityBoundingSet"], "cap_sys_admin") || !strings.Contains(unit["After"], "nvidia-persistenced.service") || !strings.Contains(unit["Before"], "nvidia-gpu-reset.target") {
		m.t.Errorf("dcm-apply.service: want the capability and the order, got %v", unit)
	}
	before := m.units(agentUnit)
	m.run("dcm apply")
	m.untouched(before)
	m.run("dcm apply mixed")
	m.bounced(before)
	m.divided("3g.40gb, 2g.20gb, 2 × 1g.10gb", 4)
}

// everyWay applies each geometry to all GPUs.
const everyWay = "DCM_NVIDIA"

// through gives neighbouring GPUs different geometries, then exchanges them, then switches MIG
// off. It reads each state back.
func (m machine) through(kind string) {
	m.t.Helper()
	ways := boards()[kind]
	names := slices.Sorted(maps.Keys(ways))
	m.chosen("off", ways)
	turns := [][]string{names, append(names[1:len(names):len(names)], names[0])}
	if os.Getenv(everyWay) != "" {
		for _, name := range names {
			turns = append(turns, []string{name})
		}
	}
	gpus := len(m.nvidias())
	for _, turn := range append(turns, []string{"off"}) {
		text := geometries("turn", ways) + "[profiles.turn]\n"
		for i := range gpus {
			text += fmt.Sprintf("[[profiles.turn.group]]\ngpus = [%d]\nmig = %s\n", i, ways[turn[i%len(turn)]])
		}
		m.put(settings, text)
		m.run("systemctl restart dcm")
		if run := m.lastRun(); run.Result != runstate.Applied {
			m.t.Errorf("%q: result %s: %+v", turn, run.Result, run.Error)
		}
		for i, g := range m.nvidias() {
			if want := ways[turn[i%len(turn)]]; of(g).String() != want.String() {
				m.t.Errorf("%s is %s, want %s", g.Address, g.Mode, want)
			}
		}
	}
	m.divided("MIG off", 0)
	if r := m.try("dcm plan nothing"); r.Code == 0 {
		m.t.Error("dcm plan of an unknown profile: want a failure")
	}
}
