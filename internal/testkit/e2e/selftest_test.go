package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"dcm/internal/app/selftest"
	"dcm/internal/gpu/partition"
)

// selftested runs self-tests that must find no error, through all modes and back.
func (m machine) selftested(changes int) selftest.Result {
	m.t.Helper()
	got := m.run("dcm selftest --change --archive /root/found.tar.gz")
	r := m.unpacked("/root/found.tar.gz")
	if selftest.Failed(r.Checks) || !strings.Contains(got, "refused, and the process is named") || strings.Contains(got, "differ from the simulator") {
		m.t.Errorf("dcm selftest --change: want no difference, got:\n%s", got)
	}
	if len(r.Runs) != changes {
		m.t.Errorf("%d runs, want %d: %v", len(r.Runs), changes, r.Runs)
	}
	m.unselected()
	return r
}

// unselected checks that a self-test has left no selection.
func (m machine) unselected() {
	m.t.Helper()
	if got := m.run("ls -A /run/dcm/dcm.toml.d 2>/dev/null; systemctl list-units --all --no-legend 'dcm-selftest*'"); got != "" {
		m.t.Errorf("rest of a self-test: want none, got %s", got)
	}
}

// unpacked returns the result in an archive. It checks that the archive names no user.
func (m machine) unpacked(file string) (r selftest.Result) {
	m.t.Helper()
	m.run("rm -rf /root/found && mkdir /root/found && tar -xzf $1 -C /root/found --strip-components=1", file)
	if got := m.run("grep -rlE \"$(hostname)|gpuagent|amd-metrics-exporter|$(cat /sys/class/kfd/kfd/topology/nodes/*/properties | sed -n 's/^unique_id \\([1-9].*\\)/\\1/p' | head -n1 | grep . || echo none-has-one)\" /root/found || :"); got != "" {
		m.t.Errorf("archive: want no name of a user, got %s", got)
	}
	if err := json.Unmarshal([]byte(m.run("cat /root/found/result.json")), &r); err != nil {
		m.t.Fatal(err)
	}
	return r
}

// throughAllModes: the clients are active afterwards, the report has durations, and it agrees with the
// simulator.
func (m machine) throughAllModes() {
	m.t.Helper()
	m.put(rocm+".knobs", "version 27.1.0\nsys /sys\n")
	m.ready()
	before := m.units(exporter, agentUnit, dashboard)
	r := m.selftested(8)
	m.bounced(before)
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.applied("cpx-fast")
	phases := make(map[string]int)
	for _, run := range r.Runs {
		for name := range run.Phases {
			phases[name]++
		}
	}
	if phases["reload"] != 3 || phases["settle"] != 3 || phases["start"] < 7 || phases["switch"] < 6 {
		m.t.Errorf("phases: got %v: %v", phases, r.Runs)
	}
	by := make(map[string]int)
	for _, c := range r.Checks {
		if c.Verdict == selftest.Right && strings.HasPrefix(c.What, "modes, by ") {
			by[c.What]++
		}
	}
	if len(by) != 3 || by["modes, by amdsmi 27.1.0"] < 9 {
		m.t.Errorf("modes were read by %v", by)
	}
	if got := m.run("cat /root/found/versions.txt /root/found/kernel.txt /root/found/profiles.toml"); !hasAll(got, "vbios_version: ", "amdgpu/version: ", "etc/os-release: ", "systemd 25", "reload for ", `[profiles.selftest-cpx-nps4]`) {
		m.t.Errorf("archive: want versions, reloads and profiles, got:\n%s", got)
	}
	m.t.Log(r.Runs)
}

// libraryLies: the vendor's library reports another mode than the driver.
func (m machine) libraryLies() {
	m.t.Helper()
	m.ready()
	m.put(rocm+".knobs", "version 27.1.0\nsys /sys\nmode-lie DPX\n")
	r := m.try("dcm selftest --read --archive /root/found.tar.gz")
	if r.Code != 2 || !strings.Contains(r.Stdout, "by amdsmi 27.1.0") || !selftest.Failed(m.unpacked("/root/found.tar.gz").Checks) {
		m.t.Errorf("exit status %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// namedInASelftest: a process of a customer's unit is in the way of later changes. The terminal names it,
// and the archive does not.
func (m machine) namedInASelftest() {
	m.t.Helper()
	m.ready()
	m.put(settings, selecting("none"))
	m.run("systemctl restart dcm; systemctl stop dashboard gpuagent amd-metrics-exporter")
	m.run("cp /usr/bin/sleep /root/secret-project-x; useradd --uid 4242 erikasmith 2>/dev/null || :")
	m.run("dcm selftest --change --archive /root/found.tar.gz >/root/out 2>&1 & echo $! >/root/pid")
	m.await("/run/dcm/report.json", `"profile": "selftest-dpx-nps1"`, `"result": "applied"`)
	m.run("systemd-run --quiet --unit=customer-acme1 --property=StandardInput=file:/dev/kfd /root/secret-project-x infinity")
	m.await("/run/dcm/state.json", "customer-acme1.service", `"phase": "waiting"`)
	m.until("grep -q customer-acme1.service /run/dcm/selftest-*.log")
	m.run("systemctl stop customer-acme1; tail --pid=$(cat /root/pid) -f /dev/null")
	out := m.run("cat /root/out")
	if !hasAll(out, "secret-project-x", "customer-acme1.service", "is wrong.", "× ") && !hasAll(out, "customer-acme1.service", "are wrong.") {
		m.t.Errorf("output: want the process and its unit, got:\n%s", out)
	}
	if !selftest.Failed(m.unpacked("/root/found.tar.gz").Checks) {
		m.t.Error("the result has no error")
	}
	if got := m.run("grep -rlE 'customer-acme1|secret-project-x|erikasmith' /root/found || :"); got != "" {
		m.t.Errorf("archive: want no name, got %s", got)
	}
	m.unselected()
	m.await("/run/dcm/state.json", `"phase": "idle"`)
}

// killedInASelftest: if the self-test is killed, PID 1 restores the GPUs, even if no profile was selected.
func (m machine) killedInASelftest() {
	m.t.Helper()
	m.ready()
	m.put(settings, selecting("none"))
	m.run("systemctl restart dcm; systemctl stop dashboard gpuagent amd-metrics-exporter")
	m.run("echo QPX >/sys/bus/pci/devices/0000:46:00.0/current_compute_partition")
	before := m.modes()
	m.run("dcm selftest --change --archive /root/found.tar.gz >/root/out 2>&1 & echo $! >/root/pid")
	m.await("/run/dcm/report.json", `"profile": "selftest-dpx-nps1"`, `"result": "applied"`)
	m.run("systemctl kill --signal=KILL --kill-whom=main dcm-selftest 2>/dev/null || systemctl kill --signal=KILL --kill-who=main dcm-selftest")
	m.run("tail --pid=$(cat /root/pid) -f /dev/null")
	if got := m.run("cat /root/out"); !hasAll(got, "ExecStart=/usr/bin/dcm", "signal 9") {
		m.t.Errorf("output after a kill: want the signal, got:\n%s", got)
	}
	if got := m.modes(); fmt.Sprint(got) != fmt.Sprint(before) {
		m.t.Errorf("modes: got %v, want %v", got, before)
	}
	m.unselected()
	m.await("/run/dcm/state.json", `"phase": "idle"`)
}

// throughGeometries is the same for GPUs with MIG. Then one GPU cannot be divided.
func (m machine) throughGeometries() {
	m.t.Helper()
	m.run("dcm selftest --read --archive /root/found.tar.gz")
	m.chosen("mixed", boards()["a30-4"])
	before, want := m.units(agentUnit), m.mig()
	m.t.Log(m.selftested(9).Runs)
	m.bounced(before)
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 10000 0000:52:00.0")
	m.chosen("off", nil)
	r := m.try("dcm selftest --change --archive /root/found.tar.gz")
	m.knob("")
	wrong := make(map[string]bool)
	for _, c := range m.unpacked("/root/found.tar.gz").Checks {
		wrong[c.At+", "+c.What] = c.Verdict == selftest.Wrong
	}
	if r.Code != 2 || !wrong["all-balanced, the change"] || wrong["all-enabled, the change"] || wrong["restored, modes, by what they are read back from"] {
		m.t.Errorf("exit status %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.divided("MIG off", 0)
	m.unselected()
	m.chosen("mixed", boards()["a30-4"])
	if got := m.mig(); fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Errorf("geometry: got %q, want %q", got, want)
	}
}
