package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"dcm/internal/account"
	"dcm/internal/e2e"
	"dcm/internal/nvml/standin"
	"dcm/internal/report"
)

// geometries is the file that NVIDIA's scenarios edit: "off" and what it is given.
func geometries(selected string, all map[string]string) string {
	text := "profile = \"" + selected + "\"\n\n[clients]\nunits = [\"gpuagent\", \"amd-metrics-exporter\"]\n\n[profiles.off]\nmig = \"off\"\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += "[profiles." + name + "]\nmig = " + all[name] + "\n"
	}
	return text
}

// of80 are geometries of a board with seven slices and 80 GB.
func of80() map[string]string {
	return map[string]string{
		"small": `{ "1g.10gb" = 7 }`, "large": `{ "7g.80gb" = 1 }`, "mixed": `{ "3g.40gb" = 1, "2g.20gb" = 1, "1g.10gb" = 2 }`,
		"double": `{ "1g.20gb" = 4 }`, "shared": `{ "4g.40gb" = 1, "1c.3g.40gb" = 3 }`, "empty": `{}`,
	}
}

// nvidiaNode boots a node of a kind with NVIDIA GPUs and installs the package on it.
func nvidiaNode(t *testing.T, recipe e2e.Recipe, p product, kind, lib string) machine {
	t.Helper()
	seed := e2e.Seed{"/etc/e2e/kind": {Content: []byte("KIND=" + kind + "\nSIM_OPTIONS=--mig=" + e2e.MIGState + "\n")}}
	if err := seed.NVML(lib); err != nil {
		t.Fatal(err)
	}
	// systemd 252 gives units a new /proc, in which a host's driver would be.
	for _, unit := range []string{"dcm", "dcm-apply", "dcm-reserve"} {
		seed["/etc/systemd/system/"+unit+".service.d/sim.conf"] = e2e.File{Content: []byte("[Service]\nBindReadOnlyPaths=-/run/dcm-sim/proc/driver:/proc/driver\n")}
	}
	return installWith(t, recipe, p, seed)
}

// nvidia is MIG: all that can happen on H100, and on the others how they differ.
func nvidia(t *testing.T, p product) {
	t.Parallel()
	lib, err := standin.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := nvidiaNode(t, recipe, p, "h100-8", lib)
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"a restart brings the geometry, and an equal one nothing", migByRestart},
				{"one geometry after the other", func(m machine) { m.through("1g.10gb", of80()) }},
				{"one GPU fails and the others go back", migFails},
				{"what somebody else has changed is put back", migDrift},
				{"a holder is waited for", migHeld},
				{"while nvidia-mig-manager is enabled nothing is changed", migRival},
				{"the oneshot and the daemon are killed", migKilled},
				{"the driver goes and comes back", migDriver},
				{"a reboot loses all, and the clients find it made again", migRebooted},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
	for kind, run := range map[string]func(machine){
		"a100-8":          migKept,
		"mi300x-4+h100-4": bothVendors,
		"a30-4": func(m machine) {
			m.through("1g.6gb", map[string]string{"small": `{ "1g.6gb" = 4 }`, "half": `{ "2g.12gb" = 2 }`, "large": `{ "4g.24gb" = 1 }`, "mixed": `{ "2g.12gb" = 1, "1g.6gb" = 2 }`, "media": `{ "1g.6gb" = 3, "1g.6gb+me" = 1 }`})
		},
		"b200-8": func(m machine) {
			m.through("1g.23gb", map[string]string{"small": `{ "1g.23gb" = 7 }`, "half": `{ "3g.90gb" = 2 }`, "large": `{ "7g.180gb" = 1 }`, "double": `{ "1g.45gb" = 4 }`, "mixed": `{ "4g.90gb" = 1, "2g.45gb" = 1, "1g.23gb" = 1 }`})
		},
		"rtx-pro-6000-4": func(m machine) {
			m.through("1g.24gb", map[string]string{"small": `{ "1g.24gb" = 4 }`, "half": `{ "2g.48gb" = 2 }`, "large": `{ "4g.96gb" = 1 }`, "graphics": `{ "1g.24gb+gfx" = 4 }`, "media": `{ "1g.24gb+me.all" = 1, "1g.24gb-me" = 3 }`})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			run(nvidiaNode(t, e2e.Trixie(), p, kind, lib))
		})
	}
}

// mig tells how each GPU with MIG is divided, in PCI order.
func (m machine) mig() []string {
	m.t.Helper()
	var a account.Account
	for range 20 { // on a busy machine a look may take longer than dcm status waits for one
		if err := json.Unmarshal([]byte(m.try("dcm status --json").Stdout), &a); err != nil {
			m.t.Fatal(err)
		}
		if len(a.GPUs) > 0 {
			break
		}
	}
	var out []string
	for _, g := range a.GPUs {
		if g.Vendor == "nvidia" {
			out = append(out, g.Mode.String())
		}
	}
	return out
}

// divided checks that all GPUs are so, by what dcm tells and by the library's state.
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

// knob turns something on in the stand-in, or all of it off.
func (m machine) knob(text string) {
	m.t.Helper()
	m.run(`file=$1; [ -n "$2" ] && { flock $file.lock sh -c 'echo "knob $2" >>$1' sh "$file" "$2"; exit; }
		flock $file.lock sed -i '/^knob/d' $file`, e2e.MIGState, text)
}

// chosen has a geometry on the GPUs, with the clients up.
func (m machine) chosen(name string, all map[string]string) {
	m.t.Helper()
	m.run("rm -f /run/dcm/dcm.toml.d/*")
	m.put(settings, geometries(name, all))
	m.run("systemctl restart dcm && systemctl start gpuagent amd-metrics-exporter")
}

func migByRestart(m machine) {
	m.chosen("small", of80())
	m.divided("7 × 1g.10gb", 7)
	if run := m.lastRun(); run.Result != report.Applied || len(run.Steps) != 16 {
		m.t.Errorf("the run ended %s with %d steps", run.Result, len(run.Steps))
	}
	if got := m.run("ls /dev/nvidia-caps | wc -l"); got != fmt.Sprint(2+8*7*2) {
		m.t.Errorf("%s nodes of instances", got)
	}
	if p := decode[report.Partitions](m, "partitions.json"); len(p.Parts) != 8*7 || len(p.Parts[0].Beside) != 5 || !strings.Contains(p.Parts[0].Render, "/dev/nvidia-caps/nvidia-cap") {
		m.t.Errorf("listed are %d partitions, %+v", len(p.Parts), p.Parts)
	}
	if got := m.run("dcm partitions; cat /run/cdi/dcm.json"); !strings.Contains(got, "0000:df:00.0-6") || !strings.Contains(got, "/dev/nvidiactl") {
		m.t.Errorf("partitions:\n%s", got)
	}
	unit := m.show("dcm-apply.service", "CapabilityBoundingSet", "After", "Before")
	if !strings.Contains(unit["CapabilityBoundingSet"], "cap_sys_admin") || !strings.Contains(unit["After"], "nvidia-persistenced.service") || !strings.Contains(unit["Before"], "nvidia-gpu-reset.target") {
		m.t.Errorf("dcm-apply.service: %v", unit)
	}
	before := m.units(agentUnit)
	m.run("dcm apply")
	m.untouched(before)
	m.run("dcm apply mixed")
	m.bounced(before)
	m.divided("3g.40gb, 2g.20gb, 2 × 1g.10gb", 4)
}

// through applies each profile, and off at the end.
func (m machine) through(smallest string, all map[string]string) {
	m.t.Helper()
	m.chosen("off", all)
	for _, name := range append(slices.Sorted(maps.Keys(all)), "off") {
		m.run("dcm apply " + name)
		got := m.mig()
		if len(got) == 0 || slices.ContainsFunc(got, func(g string) bool { return g != got[0] }) {
			m.t.Fatalf("%s: the GPUs are %q", name, got)
		}
		if run := m.lastRun(); run.Result != report.Applied && run.Result != report.Unchanged {
			m.t.Errorf("%s ended %s: %+v", name, run.Result, run.Error)
		}
		m.t.Logf("%s: %s", name, got[0])
	}
	m.divided("MIG off", 0)
	if r := m.try("dcm apply --help >/dev/null; dcm plan nothing"); r.Code == 0 {
		m.t.Error("a profile that is none is planned")
	}
}

func migFails(m machine) {
	m.chosen("mixed", of80())
	before, want := m.units(agentUnit), m.mig()
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 1 0000:52:00.0")
	r := m.try("dcm apply double")
	m.knob("")
	run := m.lastRun()
	if r.Code == 0 || run.Result != report.RolledBack || !strings.Contains(run.Error.Text, "0000:52:00.0") || !strings.Contains(run.Error.Text, "insufficient resources") {
		m.t.Errorf("exit status %d, %s, %+v", r.Code, run.Result, run.Error)
	}
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("the GPUs are %q, were %q", got, want)
	}
	m.bounced(before)
}

func migDrift(m machine) {
	m.put("/etc/systemd/system/dcm.service.d/fast.conf", "[Service]\nWatchdogSec=20s\n")
	m.run("systemctl daemon-reload")
	m.chosen("mixed", of80())
	want := m.mig()
	m.run(`systemctl stop gpuagent; /usr/libexec/dcm/dcm-nvml '{"do":"clear","gpu":"0000:61:00.0"}'; systemctl start gpuagent`)
	m.await("/run/dcm/report.json", `somebody else has changed the GPUs`, `"result": "applied"`)
	m.applied("mixed")
	if got := m.mig(); !slices.Equal(got, want) {
		m.t.Errorf("the GPUs are %q, were %q", got, want)
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
		m.t.Errorf("the GPUs are %q, were %q", got, want)
	}
	if got := m.run("dcm holders"); !strings.Contains(got, "/dev/nvidia2") || !strings.Contains(got, "training.service") {
		m.t.Errorf("dcm holders:\n%s", got)
	}
	m.run("systemctl stop training")
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
}

func migRival(m machine) {
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

func migKilled(m machine) {
	m.chosen("large", of80())
	m.knob("hang nvmlDeviceCreateGpuInstanceWithPlacement")
	m.put(settings, geometries("small", of80()))
	m.await("/run/dcm/report.json", `"result": "running"`, `"profile": "small"`)
	m.run("systemctl kill -s KILL dcm; systemctl kill -s KILL dcm-apply")
	m.knob("")
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	if got := m.show(agentUnit, "ActiveState")["ActiveState"]; got != "active" {
		m.t.Errorf("gpuagent is %s", got)
	}
}

func migDriver(m machine) {
	m.run("systemctl stop gpuagent amd-metrics-exporter dashboard; modprobe -r nvidia")
	if got := m.run("dcm gpus"); !strings.Contains(got, "the nvidia driver is not loaded") {
		m.t.Errorf("dcm gpus:\n%s", got)
	}
	if r := m.try("systemctl restart dcm"); r.Code == 0 {
		m.t.Error("without the driver the profile is on the GPUs")
	}
	m.run("modprobe nvidia")
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	m.run("systemctl start gpuagent amd-metrics-exporter")
}

func migRebooted(m machine) {
	m.reboot()
	m.applied("small")
	m.divided("7 × 1g.10gb", 7)
	run := m.lastRun()
	if run.Result != report.Applied || len(run.Steps) != 16 {
		m.t.Errorf("the run at boot ended %s with %d steps", run.Result, len(run.Steps))
	}
	m.run(`[ "$(systemctl show -P ActiveEnterTimestampMonotonic gpuagent)" -gt "$(systemctl show -P ActiveEnterTimestampMonotonic dcm-apply)" ]`)
}

// migKept: an A100 is reset for its mode, which it keeps over a reboot.
func migKept(m machine) {
	m.through("1g.10gb", map[string]string{"small": `{ "1g.10gb" = 7 }`, "large": `{ "7g.80gb" = 1 }`, "halves": `{ "3g.40gb" = 2 }`, "thirds": `{ "2g.20gb" = 3 }`, "media": `{ "1g.10gb" = 6, "1g.10gb+me" = 1 }`})
	if got := m.try("dcm plan small").Stdout; !strings.Contains(got, "resets it") {
		m.t.Errorf("dcm plan:\n%s", got)
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
	if run := m.lastRun(); r.Code == 0 || run.Error == nil || !strings.Contains(run.Error.Cure, "eboot") {
		m.t.Errorf("a reset that is required: exit status %d, %s, %+v", r.Code, run.Result, run.Error)
	}
}

// bothVendors is one host and one transaction.
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
	if run := m.lastRun(); run.Result != report.Applied || len(run.GPUs) != 8 || len(run.Steps) != 4+8 {
		m.t.Errorf("the run ended %s with %d GPUs and %d steps", run.Result, len(run.GPUs), len(run.Steps))
	}
	before := m.units(agentUnit)
	m.run("dcm apply whole")
	m.bounced(before)
	has("MIG off", 0, "SPX/NPS1")
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 1 0000:d1:00.0")
	r := m.try("dcm apply both")
	m.knob("")
	if run := m.lastRun(); r.Code == 0 || run.Result != report.RolledBack {
		m.t.Errorf("exit status %d, the run ended %s", r.Code, run.Result)
	}
	has("MIG off", 0, "SPX/NPS1")
}
