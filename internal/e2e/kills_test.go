package e2e_test

import (
	"dcm/internal/report"
)

// hang lets the next operation of a kind take so long that a test can act in the
// middle of it.
func (m machine) hang(op, time string) {
	m.t.Helper()
	m.run(`dcm-sim fault --gpu all --op "$1" --hang "$2"`, op, time)
}

// converges checks that the next apply brings the profile and all clients.
func (m machine) converges(profile string) {
	m.t.Helper()
	m.put(settings, selecting(profile))
	m.run("systemctl restart dcm && dcm verify")
	m.run("systemctl is-active amd-metrics-exporter gpuagent dashboard")
	if jobs := m.run("systemctl list-jobs --no-legend"); jobs != "" {
		m.t.Errorf("jobs are left: %s", jobs)
	}
}

func oneshotKilled(m machine) {
	before := m.units(exporter, agentUnit, dashboard)
	m.hang("compute", "5s")
	m.put(settings, selecting("spx-fast"))
	m.begun("spx-fast")
	m.run("systemctl kill --signal=KILL dcm-apply")
	// PID 1 starts the clients, and the daemon tries again by itself.
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(before)
	m.converges("cpx-fast")
}

func daemonKilled(m machine) {
	before := m.units(exporter, agentUnit, dashboard)
	m.hang("compute", "2s")
	m.put(settings, selecting("spx-fast"))
	m.begun("spx-fast")
	m.run("systemctl kill --signal=KILL dcm")
	m.await("/run/dcm/report.json", `"result": "applied"`, `"profile": "spx-fast"`)
	m.run("systemctl start amd-metrics-exporter gpuagent dashboard") // joins the jobs under way
	m.bounced(before)
	m.has(spx)
	m.converges("cpx-fast")
}

func systemdReexecuted(m machine) {
	before := m.units(exporter, agentUnit, dashboard)
	m.hang("compute", "2s")
	m.put(settings, selecting("spx-fast"))
	m.begun("spx-fast")
	m.run("systemctl daemon-reexec")
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(before)
	m.converges("cpx-fast")
}

// A second restart ends the run under way, which finishes its step, and runs it
// again. The clients come back once that one is over.
func restartedInTheMiddle(m machine) {
	before := m.units(exporter, agentUnit, dashboard)
	m.hang("compute", "2s")
	m.put(settings, selecting("spx-fast"))
	m.begun("spx-fast")
	m.run("systemctl restart dcm-apply")
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(before)
	m.converges("cpx-fast")
}

// Started and not restarted, the oneshot finds the clients up: it names them and
// touches nothing.
func startedWithClients(m machine) {
	m.run("systemctl stop dcm dcm-apply") // and with it the clients: PartOf=
	for _, unit := range []string{exporter, agentUnit} {
		if got := m.show(unit, "ActiveState")["ActiveState"]; got != "inactive" {
			m.t.Errorf("%s is %s after the stop of dcm-apply", unit, got)
		}
	}
	m.put(settings, selecting("spx-fast"))
	m.run("systemctl start amd-metrics-exporter gpuagent dashboard")
	before := m.units(exporter, agentUnit, dashboard)
	modes := m.modes()
	if r := m.try("systemctl start dcm-apply"); r.Code == 0 {
		m.t.Error("the oneshot succeeded with clients up")
	}
	run := m.lastRun()
	if run.Result != report.Refused || len(run.Holders) != 2 {
		m.t.Errorf("the run ended %s, holders %+v", run.Result, run.Holders)
	}
	for gpu, mode := range m.modes() {
		if modes[gpu] != mode {
			m.t.Errorf("%s was %s and is %s", gpu, modes[gpu], mode)
		}
	}
	m.untouched(before)
	m.run("systemctl start dcm && dcm verify")
	m.bounced(before)
}
