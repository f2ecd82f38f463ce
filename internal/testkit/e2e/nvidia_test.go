package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/nvml/standin"
	"dcm/internal/testkit/e2e"
)

// way is a geometry: the number of instances of each profile. An empty one means that MIG is off.
type way map[string]int

func (w way) String() string {
	if w == nil {
		return `"off"`
	}
	var out []string
	for _, profile := range slices.Sorted(maps.Keys(w)) {
		out = append(out, fmt.Sprintf("%q = %d", profile, w[profile]))
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// of returns the geometry of a GPU.
func of(g status.GPU) way {
	if g.Mode.Whole == "MIG off" {
		return nil
	}
	w := make(way)
	for _, s := range g.Mode.Slices {
		for profile := range strings.SplitSeq(s, "/") {
			w[profile]++
		}
	}
	return w
}

// geometries returns the configuration of NVIDIA's scenarios: "off" and the given geometries.
func geometries(selected string, all map[string]way) string {
	text := "profile = \"" + selected + "\"\n\n[clients]\nunits = [\"gpuagent\", \"amd-metrics-exporter\"]\n\n[profiles.off]\nmig = \"off\"\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += "[profiles." + name + "]\nmig = " + all[name].String() + "\n"
	}
	return text
}

// of80 are geometries of a board with seven slices and 80 GB.
func of80() map[string]way {
	return map[string]way{
		"small": {"1g.10gb": 7}, "large": {"7g.80gb": 1}, "mixed": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2},
		"double": {"1g.20gb": 4}, "shared": {"4g.40gb": 1, "1c.3g.40gb": 3}, "empty": {},
	}
}

// boards returns at least five geometries of each kind of node.
func boards() map[string]map[string]way {
	return map[string]map[string]way{
		"h100-8":         of80(),
		"a100-8":         {"small": {"1g.10gb": 7}, "large": {"7g.80gb": 1}, "halves": {"3g.40gb": 2}, "thirds": {"2g.20gb": 3}, "media": {"1g.10gb": 6, "1g.10gb+me": 1}},
		"a30-4":          {"small": {"1g.6gb": 4}, "half": {"2g.12gb": 2}, "large": {"4g.24gb": 1}, "mixed": {"2g.12gb": 1, "1g.6gb": 2}, "media": {"1g.6gb": 3, "1g.6gb+me": 1}},
		"b200-8":         {"small": {"1g.23gb": 7}, "half": {"3g.90gb": 2}, "large": {"7g.180gb": 1}, "double": {"1g.45gb": 4}, "mixed": {"4g.90gb": 1, "2g.45gb": 1, "1g.23gb": 1}},
		"rtx-pro-6000-4": {"small": {"1g.24gb": 4}, "half": {"2g.48gb": 2}, "large": {"4g.96gb": 1}, "graphics": {"1g.24gb+gfx": 4}, "media": {"1g.24gb+me.all": 1, "1g.24gb-me": 3}},
	}
}

// simulated sets the kind of the simulated node from the next boot on.
const simulated = "/etc/e2e/kind"

func kindOf(kind string) string { return "KIND=" + kind + "\nSIM_OPTIONS=--mig=" + e2e.MIGState + "\n" }

// nvidiaNode boots a node of a kind with NVIDIA GPUs and installs the package on it.
func nvidiaNode(t *testing.T, recipe e2e.Recipe, p product, kind, lib string, more e2e.Seed) machine {
	t.Helper()
	seed := e2e.Seed{simulated: {Content: []byte(kindOf(kind))}}
	maps.Copy(seed, more)
	if err := seed.NVML(lib); err != nil {
		t.Fatal(err)
	}
	// systemd 252 mounts a new /proc for units, without the simulated files.
	for _, unit := range []string{"dcm", "dcm-apply", "dcm-reserve"} {
		seed["/etc/systemd/system/"+unit+".service.d/sim.conf"] = e2e.File{Content: []byte("[Service]\nBindReadOnlyPaths=-/run/dcm-sim/proc/driver:/proc/driver\n")}
	}
	// systemd finds char-nvidia-caps in /proc/devices, which a container shares with its host.
	for _, unit := range []string{"dcm", "dcm-reserve"} {
		seed["/etc/systemd/system/"+unit+".service.d/caps.conf"] = e2e.File{Content: []byte("[Service]\nDeviceAllow=char-509 rw\n")}
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
				{"no change with nvidia-mig-manager enabled", migRival},
				{"oneshot and daemon killed", migKilled},
				{"driver unloaded and loaded", migDriver},
				{"real device nodes", migNodes},
				{"reservations of whole GPUs", wholeReserved},
				{"reservations of MIG devices", devicesReserved},
				{"leases confined to MIG devices", devicesLeased},
				{"CDI by nvidia-cdi-refresh", cdiRefreshed},
				{"geometry restored after a reboot", migRebooted},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
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
	m.t.Logf("of what mig-parted brings along %d profiles are planned, %d do not fit", fits, others)
	if fits < 6 {
		m.t.Errorf("profiles that fit: want at least 6, got %d", fits)
	}
	m.run("rm " + imported + "; systemctl reload dcm")
}

// nvidias are the GPUs with MIG, in PCI order.
func (m machine) nvidias() []status.GPU {
	m.t.Helper()
	var a status.Account
	for range 20 { // on a busy machine a look may take longer than dcm status waits for one
		if err := json.Unmarshal([]byte(m.try("dcm status --json").Stdout), &a); err != nil {
			m.t.Fatal(err)
		}
		if len(a.GPUs) > 0 {
			break
		}
	}
	return slices.DeleteFunc(slices.Clone(a.GPUs), func(g status.GPU) bool { return g.Vendor != "nvidia" })
}

// mig returns the geometry of each of them.
func (m machine) mig() []string {
	m.t.Helper()
	var out []string
	for _, g := range m.nvidias() {
		out = append(out, g.Mode.String())
	}
	return out
}

// divided expects all GPUs to have the geometry, by dcm's status and by the library's state.
func (m machine) divided(want string, instances int) {
	m.t.Helper()
	got := m.mig()
	if len(got) == 0 || slices.ContainsFunc(got, func(g string) bool { return g != want }) {
		m.t.Errorf("the GPUs are %q, want each %s", got, want)
	}
	if n := m.run("grep -c '^gi ' " + e2e.MIGState + " || :"); n != fmt.Sprint(instances*len(got)) {
		m.t.Errorf("%s instances, want %d on each of %d", n, instances, len(got))
	}
}

// knob switches a fault of the stand-in on, or all of them off.
func (m machine) knob(text string) {
	m.t.Helper()
	m.run(`file=$1; [ -n "$2" ] && { flock $file.lock sh -c 'echo "knob $2" >>$1' sh "$file" "$2"; exit; }
		flock $file.lock sed -i '/^knob/d' $file`, e2e.MIGState, text)
}

// chosen applies a geometry and waits for the clients.
func (m machine) chosen(name string, all map[string]way) {
	m.t.Helper()
	m.run("rm -f /run/dcm/dcm.toml.d/*")
	m.put(settings, geometries(name, all))
	m.run("systemctl restart dcm && systemctl start gpuagent amd-metrics-exporter")
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

// called is the number of calls of the library by unit, GPU and function. Calls for no GPU are
// under "-".
type called map[string]map[string]map[string]int

// counting counts the calls of the library during a function. It waits for processes that have
// loaded the library.
func (m machine) counting(do func()) called {
	m.t.Helper()
	const log = "/run/dcm/calls"
	m.run("rm -f " + log)
	m.knob("log " + log)
	do()
	m.knob("")
	lines := m.until(`for pid in $(sed -n 's/^nvmlInit_v2 .* //p' $1); do [ ! -e /proc/$pid ] || exit 1; done; cat $1; rm $1`, log) + "\n"
	out := make(called)
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) != 4 {
			m.t.Fatalf("%q", line)
		}
		if f[2] == "dcm.service" && !strings.Contains(lines, "nvmlShutdown - "+f[2]+" "+f[3]+"\n") {
			continue
		}
		if out[f[2]] == nil {
			out[f[2]] = make(map[string]map[string]int)
		}
		if out[f[2]][f[1]] == nil {
			out[f[2]][f[1]] = make(map[string]int)
		}
		out[f[2]][f[1]][f[0]]++
	}
	return out
}

// sums returns a unit's loads of the library, its inspections of a GPU, and its calls for it.
func (c called) sums(unit, gpu string) (loads, looks, calls int) {
	for _, n := range c[unit][gpu] {
		calls += n
	}
	return c[unit]["-"]["nvmlInit_v2"], c[unit][gpu]["nvmlDeviceGetHandleByPciBusId_v2"], calls
}

// migCounted counts the calls of runs. An inspection loads the library once for all GPUs. A run
// without a change inspects once, as does the daemon. A run that changes one GPU calls
// changing functions for that GPU only.
func migCounted(m machine) {
	m.chosen("mixed", of80())
	m.applied("mixed")
	gpus := m.nvidias()
	first, third := gpus[0].Address, gpus[2].Address
	const daemon, oneshot = "dcm.service", "dcm-apply.service"
	for _, s := range []struct {
		what  string
		do    func()
		looks map[string]int // maximum numbers: the daemon may inspect once more
	}{
		{"dcm apply without changes", func() { m.run("dcm apply") }, map[string]int{daemon: 3}},
		{"restart of dcm-apply without changes", func() { m.run("systemctl restart dcm-apply; dcm apply") }, map[string]int{daemon: 5, oneshot: 1}},
		{"restart of dcm without changes", func() { m.run("systemctl restart dcm") }, map[string]int{daemon: 3}},
	} {
		c := m.counting(s.do)
		for unit := range c {
			loads, looks, calls := c.sums(unit, first)
			m.t.Logf("%s: %s loads the library %d times for %d looks, with %d calls for each GPU", s.what, unit, loads, looks, calls)
			if loads != looks || looks > s.looks[unit] {
				m.t.Errorf("%s: %s loads it %d times for %d looks, want one for each, at most %d", s.what, unit, loads, looks, s.looks[unit])
			}
		}
		if loads, _, _ := c.sums(daemon, first); loads == 0 {
			m.t.Errorf("%s: want counted calls, got %v", s.what, c)
		}
	}
	c := m.counting(func() { // includes the edit, which the daemon notices
		m.put(settings, geometries("one", of80())+"[profiles.one]\n[[profiles.one.group]]\ngpus = [2]\nmig = { \"1g.10gb\" = 7 }\n")
		m.run("dcm apply")
	})
	_, looks, calls := c.sums(oneshot, first)
	all, own, ownCalls := c.sums(oneshot, third)
	m.t.Logf("one of eight: %d loads; %d looks with %d calls for each GPU; %d loads with %d calls for the one alone", all, looks, calls, all-looks, ownCalls-calls)
	run := m.lastRun()
	if run.Result != runstate.Applied || len(run.Steps) != 2 || all != looks+len(run.Steps) || own != looks+2*len(run.Steps) {
		m.t.Errorf("the run ended %s; %d loads for %d looks and %d steps, %d handles of the one", run.Result, all, looks, len(run.Steps), own)
	}
	for gpu, functions := range c[oneshot] {
		for f := range functions {
			changes := strings.Contains(f, "Create") || strings.Contains(f, "Destroy") || strings.Contains(f, "Set")
			if changes && gpu != third {
				m.t.Errorf("%s is called for %s", f, gpu)
			}
		}
	}
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
			m.t.Errorf("%q ended %s: %+v", turn, run.Result, run.Error)
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

func migFails(m machine) {
	m.chosen("mixed", of80())
	before, want := m.units(agentUnit), m.mig()
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 1 0000:52:00.0")
	r := m.try("dcm apply double")
	m.knob("")
	run := m.lastRun()
	if r.Code == 0 || run.Result != runstate.RolledBack || !strings.Contains(run.Error.Text, "0000:52:00.0") || !strings.Contains(run.Error.Text, "insufficient resources") {
		m.t.Errorf("failed change: want rolled-back with the GPU, got %d, %s, %+v", r.Code, run.Result, run.Error)
	}
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("geometry: got %q, want %q", got, want)
	}
	m.bounced(before)
}

func migDrift(m machine) {
	m.put("/etc/systemd/system/dcm.service.d/fast.conf", "[Service]\nWatchdogSec=20s\n")
	m.run("systemctl daemon-reload")
	m.chosen("mixed", of80())
	want, before := m.mig(), m.lastRun().ID
	m.run(`systemctl stop gpuagent; /usr/libexec/dcm/dcm-nvml '{"do":"clear","gpu":"0000:61:00.0"}'; systemctl start gpuagent`)
	m.until(`! grep -q "$1" /run/dcm/report.json && grep '"result": "applied"' /run/dcm/report.json`, before)
	m.applied("mixed")
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("geometry: got %q, want %q", got, want)
	}
	m.run("rm /etc/systemd/system/dcm.service.d/fast.conf; systemctl daemon-reload; systemctl restart dcm")
}

func migHeld(m machine) {
	m.chosen("mixed", of80())
	m.run("systemd-run --unit=training sh -c 'exec 3</dev/nvidia2; echo held >/run/held; exec sleep infinity'")
	m.await("/run/held", "held")
	want := m.mig()
	r := m.try("dcm apply small")
	if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "training.service") {
		m.t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("geometry: got %q, want %q", got, want)
	}
	if got := m.run("dcm holders"); !strings.Contains(got, "/dev/nvidia2") || !strings.Contains(got, "training.service") {
		m.t.Errorf("dcm holders: want the holder, got:\n%s", got)
	}
	m.run("systemctl stop training")
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
}

func migRival(m machine) {
	m.chosen("small", of80())
	m.put("/etc/systemd/system/nvidia-mig-manager.service", "[Service]\nType=oneshot\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n")
	m.run("systemctl enable nvidia-mig-manager")
	r := m.try("dcm apply large")
	if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "systemctl mask --now nvidia-mig-manager.service") {
		m.t.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.divided("7 × 1g.10gb", 7)
	m.run("rm /etc/systemd/system/nvidia-mig-manager.service; systemctl mask nvidia-mig-manager; dcm apply large")
	m.divided("7g.80gb", 1)
}

// migKilled kills a process during a step. Afterwards the profile is applied and the clients are
// active.
func migKilled(m machine) {
	m.chosen("mixed", of80())
	const (
		create, destroy, inside, mode = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy", "nvmlDeviceSetMigMode"
		library                       = `for p in /proc/[0-9]*; do case $(tr '\0' ' ' <$p/cmdline) in */dcm-nvml\ --confined*) kill -KILL ${p#/proc/} ;; esac; done 2>/dev/null`
	)
	type killing struct{ profile, amid, step, kill string }
	list := []killing{
		{"large", create, "mig-fill", "systemctl kill -s TERM dcm-apply"},
		{"mixed", create, "mig-fill", library},
		{"large", create, "mig-fill", "systemctl kill -s KILL dbus; systemctl daemon-reexec"},
		{"small", create, "mig-fill", "systemctl kill -s KILL dcm; systemctl kill -s KILL dcm-apply"},
	}
	if os.Getenv(everyWay) != "" {
		list = append(list,
			killing{"off", inside, "mig-clear", "systemctl kill -s KILL dcm-apply"},
			killing{"mixed", mode, "mig-mode", "systemctl kill -s KILL dcm"},
			killing{"large", destroy, "mig-clear", "systemctl kill -s TERM dcm-apply"},
			killing{"off", mode, "mig-mode", library},
			killing{"small", mode, "mig-mode", "systemctl kill -s KILL dcm; systemctl kill -s KILL dcm-apply; systemctl daemon-reload"})
	}
	for _, s := range list {
		m.knob("hang " + s.amid)
		m.put(settings, geometries(s.profile, of80()))
		m.await("/run/dcm/report.json", `"result": "running"`, `"profile": "`+s.profile+`"`, `"`+s.step+`"`)
		m.run(s.kill)
		m.knob("")
		m.applied(s.profile)
		want := map[string]struct {
			geometry  string
			instances int
		}{"large": {"7g.80gb", 1}, "mixed": {"3g.40gb, 2g.20gb, 2 × 1g.10gb", 4}, "small": {"7 × 1g.10gb", 7}, "off": {"MIG off", 0}}[s.profile]
		m.divided(want.geometry, want.instances)
		if got := m.show(agentUnit, "ActiveState")["ActiveState"]; got != "active" {
			m.t.Errorf("%s during %s: want gpuagent active, got %s", s.kill, s.amid, got)
		}
	}
	// logind of systemd 257 has lost its bus name, which would delay a reboot by 50 s.
	m.run("systemctl try-restart systemd-logind")
}

func migDriver(m machine) {
	m.chosen("small", of80())
	// The devices that a driver registers when it is loaded, and a device list with them.
	m.put("/etc/systemd/system/dcm.service.d/late.conf", "[Service]\nBindReadOnlyPaths=/run/devices:/proc/devices\nDeviceAllow=/dev/late rw\n")
	m.run("cp /proc/devices /run/devices; systemctl daemon-reload")
	m.run("systemctl stop gpuagent amd-metrics-exporter dashboard; modprobe -r nvidia")
	if got := m.run("dcm gpus"); !strings.Contains(got, "nvidia driver") {
		m.t.Errorf("dcm gpus:\n%s", got)
	}
	if r := m.try("systemctl restart dcm"); r.Code == 0 {
		m.t.Error("start of dcm without the driver: want a failure")
	}
	m.until("systemctl is-active --quiet dcm")
	m.run("mknod -m 666 /dev/late c 508 77")
	if got := m.opens("dcm.service", "/dev/late"); got != "no" {
		m.t.Errorf("node that appears after the start of the daemon: want it closed, got %s", got)
	}
	m.run("echo 508 late >>/run/devices; modprobe nvidia")
	m.applied("small")
	if got := m.opens("dcm.service", "/dev/late"); got != "yes" {
		m.t.Errorf("node of a loaded driver: want it open for the daemon, got %s", got)
	}
	m.run("rm /dev/late /etc/systemd/system/dcm.service.d/late.conf; systemctl daemon-reload; systemctl restart dcm")
	m.divided("7 × 1g.10gb", 7)
	m.run("systemctl start gpuagent amd-metrics-exporter")
}

func migRebooted(m machine) {
	m.slice("small", 3)
	m.run("dcm apply")
	m.reboot()
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	run := m.lastRun()
	if run.Result != runstate.Applied || len(run.Steps) != 16 {
		m.t.Errorf("run at boot: want applied with 16 steps, got %s with %d", run.Result, len(run.Steps))
	}
	m.dealt(3)
	m.run(`[ "$(systemctl show -P ActiveEnterTimestampMonotonic gpuagent)" -gt "$(systemctl show -P ActiveEnterTimestampMonotonic dcm-apply)" ]`)
}

// migKept: an A100 is reset for a change of its MIG mode, and keeps the mode over a reboot.
func migKept(m machine) {
	m.chosen("off", boards()["a100-8"])
	if got := m.try("dcm plan small --json").Stdout; !strings.Contains(got, `"reset": true`) {
		m.t.Errorf("dcm plan: want the reset, got:\n%s", got)
	}
	m.run("dcm use small")
	m.reboot()
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	if run := m.lastRun(); len(run.Steps) != 8 {
		m.t.Errorf("after the reboot %d steps, want the mode kept, and 8", len(run.Steps))
	}
	m.knob("mode-activation 16")
	r := m.try("dcm apply off")
	m.knob("")
	if run := m.lastRun(); r.Code == 0 || run.Error == nil || !strings.Contains(run.Error.Hint, "eboot") {
		m.t.Errorf("change with a required reset: got exit status %d, %s, %+v", r.Code, run.Result, run.Error)
	}
	// With "leave" the host is rebooted instead. After the boot no process blocks the reset.
	m.knob("fail nvmlDeviceSetMigMode 16 0 8")
	m.run("rm -f /run/dcm/dcm.toml.d/* /var/lib/dcm/reboot.json; echo of another boot >/var/lib/dcm/lasts")
	m.put(settings, geometries("off", boards()["a100-8"])+"[apply]\nreboot = \"once\"\n")
	m.rebootedByItself()
	m.applied("off")
	m.divided("MIG off", 0)
}

// bothVendors: GPUs of both vendors are changed in one transaction.
func bothVendors(m machine) {
	m.put(settings, `profile = "both"

[clients]
units = ["gpuagent", "amd-metrics-exporter"]

[profiles.both]
memory = "NPS1"
[[profiles.both.group]]
compute = "CPX"
count = "rest"
[[profiles.both.group]]
mig = { "1g.10gb" = 7 }
count = "rest"

[profiles.whole]
memory = "NPS1"
[[profiles.whole.group]]
compute = "SPX"
count = "rest"
[[profiles.whole.group]]
mig = "off"
count = "rest"
`)
	m.run("systemctl restart dcm; systemctl start gpuagent")
	has := func(mig string, instances int, mode string) {
		m.t.Helper()
		m.divided(mig, instances)
		modes := m.modes()
		for gpu, got := range modes {
			if got.String() != mode {
				m.t.Errorf("%s is %s, want %s", gpu, got, mode)
			}
		}
		if len(modes) != 4 {
			m.t.Errorf("modes of %d GPUs", len(modes))
		}
	}
	has("7 × 1g.10gb", 7, "CPX/NPS1")
	if run := m.lastRun(); run.Result != runstate.Applied || len(run.GPUs) != 8 || len(run.Steps) != 4+8 {
		m.t.Errorf("the run ended %s with %d GPUs and %d steps", run.Result, len(run.GPUs), len(run.Steps))
	}
	before := m.units(agentUnit)
	m.run("dcm apply whole")
	m.bounced(before)
	has("MIG off", 0, "SPX/NPS1")
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 1 0000:d1:00.0")
	r := m.try("dcm apply both")
	m.knob("")
	if run := m.lastRun(); r.Code == 0 || run.Result != runstate.RolledBack {
		m.t.Errorf("exit status %d, the run ended %s", r.Code, run.Result)
	}
	has("MIG off", 0, "SPX/NPS1")
}

// bothReserved: a holder of partitions of one vendor can open none of the other vendor.
func bothReserved(m machine) {
	for _, name := range []string{"alpha", "beta@"} {
		m.put("/etc/systemd/system/"+name+".service", holder)
	}
	m.knob("nodes /dev 509")
	m.run("rm -f /run/dcm/dcm.toml.d/*; systemctl daemon-reload")
	reserve := func(more string) {
		text := m.run("cat " + settings)
		i := strings.Index(text+"[[reservation]]", "[[reservation]]")
		m.put(settings, text[:min(i, len(text))]+"\n"+more)
		m.run("dcm apply")
	}
	reserve("")
	d := m.deal()
	amd, nvidia := d.Parts[0].GPU, d.Parts[len(d.Parts)-1].GPU
	reserve(fmt.Sprintf("[[reservation]]\nunit = \"alpha\"\npartitions = 2\nexclusive = true\ngpus = [%q]\n[[reservation]]\nunit = \"beta@1\"\npartitions = 2\nexclusive = true\ngpus = [%q]\n", amd, nvidia))
	m.run("systemctl start alpha beta@1")
	d = m.deal()
	alpha, beta := d.of("alpha"), d.of("beta-1")
	if len(alpha) != 2 || len(beta) != 2 || !strings.HasPrefix(alpha[0], "/dev/dri/") || !strings.HasPrefix(beta[0], "/dev/nvidia-caps/") {
		m.t.Fatalf("nodes of alpha and beta: got %s and %s", alpha, beta)
	}
	m.can("alpha.service", d, false, d.with(alpha...))
	m.can("beta@1.service", d, false, d.with(beta...))
	m.can("", d, true, slices.Concat(alpha, beta))
	lease := m.lessee("-n 2")
	m.can(lease, d, false, d.with(m.leased(d, lease)...))
	m.run("dcm release " + lease)
	// The request selects partitions by vendor and by mode.
	reserve("[[reservation]]\nunit = \"alpha\"\npartitions = 3\nexclusive = true\nmode = \"CPX\"\n[[reservation]]\nunit = \"beta@1\"\npartitions = 3\nexclusive = true\nvendor = \"nvidia\"\n")
	m.run("systemctl start alpha beta@1")
	d = m.deal()
	alpha, beta = d.of("alpha"), d.of("beta-1")
	if len(alpha) != 3 || len(beta) != 3 || !strings.HasPrefix(alpha[2], "/dev/dri/") || !strings.HasPrefix(beta[2], "/dev/nvidia-caps/") {
		m.t.Fatalf("nodes of alpha and beta by vendor: got %s and %s", alpha, beta)
	}
	m.can("alpha.service", d, false, d.with(alpha...))
	m.can("beta@1.service", d, false, d.with(beta...))
	for options, node := range map[string]string{"-n 2 --vendor amd": "/dev/dri/", "-n 2 --mode 1g.10gb": "/dev/nvidia-caps/"} {
		lease := m.lessee(options)
		has := m.leased(d, lease)
		if len(has) != 2 || !strings.HasPrefix(has[0], node) || !strings.HasPrefix(has[1], node) {
			m.t.Errorf("dcm run %s: want two nodes of that kind, got %s", options, has)
		}
		m.can(lease, d, false, d.with(has...))
		m.run("dcm release " + lease)
	}
	if r := m.try("dcm run --mode 3g.40gb -- true"); r.Code != exitcode.Permanent || !strings.Contains(r.Stderr, "3g.40gb") || !hasAll(r.Stderr, "amd CPX/NPS1", "nvidia 1g.10gb") {
		m.t.Errorf("dcm run for a missing mode: want 69 and the modes, got %d, %s", r.Code, r.Stderr)
	}
	before := m.units("alpha.service", "beta@1.service")
	if r := m.try("dcm apply whole"); r.Code == 0 || !hasAll(r.Stderr, "reservation alpha", "CPX") {
		m.t.Errorf("profile without the reserved partitions: want a refusal, got %d, %s", r.Code, r.Stderr)
	}
	m.untouched(before)
}
