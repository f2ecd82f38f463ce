package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// eachGPU declares a worker for each of eight GPUs, and an observer of all.
func eachGPU(profile string) string {
	text := "profile = \"" + profile + "\"\n[[client]]\nunit = \"watcher\"\nobserver = true\n"
	for i := range 8 {
		text += fmt.Sprintf("[[client]]\nunit = \"worker@%d\"\ngpus = [%[1]d]\n", i)
	}
	return text + `[profiles.same]
compute = "SPX"
memory = "NPS1"
[profiles.third]
memory = "NPS1"
[[profiles.third.group]]
compute = "CPX"
gpus = [3]
[[profiles.third.group]]
compute = "SPX"
count = "rest"
[profiles.all]
compute = "CPX"
memory = "NPS1"
`
}

// worker holds a partition of its GPU open, which attaches it to this GPU in KFD. Its start is recorded.
const worker = `[Service]
ExecStart=sh -c 'exec 3</dev/dcm/worker-%i/render0 4</dev/kfd; echo $$$$ >>/run/worker-%i; exec sleep infinity'
`

// singleGPUs tests changes of single GPUs.
func singleGPUs(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range suites() {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, p)
			m.put("/etc/systemd/system/worker@.service", worker)
			m.put("/etc/systemd/system/watcher.service", holder)
			all := "watcher " + strings.Join(workers(), " ")
			m.run("systemctl disable --now amd-metrics-exporter gpuagent; systemctl daemon-reload; systemctl add-wants multi-user.target " + all)
			m.put(settings, eachGPU("same"))
			m.run("systemctl restart dcm && systemctl start " + all + " && systemctl is-active " + all)
			for _, s := range []struct {
				name string
				run  func(machine)
			}{
				{"affected units restart", affectedRestart},
				{"older driver checks all GPUs", olderBusyCheck},
			} {
				t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) })
			}
		})
	}
}

// workers returns the names of the eight services, without those of the named GPUs.
func workers(without ...int) (units []string) {
	for i := range 8 {
		if !slices.Contains(without, i) {
			units = append(units, fmt.Sprintf("worker@%d.service", i))
		}
	}
	return units
}

// affectedRestart: a change of GPU 3 restarts its worker and the observer, and no other unit.
func affectedRestart(m machine) {
	kept, affected := m.units(workers(3)...), m.units("worker@3.service", "watcher.service")
	stops := m.newEntries("_PID=1 JOB_TYPE=stop")
	out := m.run("dcm use third")
	m.untouched(kept)
	m.bounced(affected)
	for _, e := range stops() {
		if unit, _ := e["UNIT"].(string); strings.HasPrefix(unit, "worker@") && unit != "worker@3.service" {
			m.t.Errorf("stop of %s in the journal", unit)
		}
	}
	if links := m.run("ls /dev/dcm/worker-3 | wc -l; ls /dev/dcm/worker-4 | wc -l"); links != "8\n1" {
		m.t.Errorf("links of worker 3 and 4: want 8 and 1, got %q", links)
	}
	if s := m.state(); s.Change == nil || len(s.Change.GPUs) != 1 || len(s.Change.Kept) != 7 {
		m.t.Errorf("change in the state: %+v; %s", s.Change, out)
	}
	m.exits(0, "dcm status")
}
