package e2e_test

import (
	"dcm/internal/engine/runstate"
)

// duringSPX selects spx-fast and acts during its run. The switch of the last GPU hangs, so that
// the oneshot can be stopped (SIGSTOP) until the action is complete.
func (m machine) duringSPX(act func()) {
	m.t.Helper()
	m.run("dcm-sim fault --gpu 0000:e5:00.0 --op compute --hang forever")
	m.put(settings, selecting("spx-fast"))
	// The kernel has no event for a switch. A GPU that hangs cannot be read, so this polls
	// another one.
	m.run(switched + "; systemctl kill --signal=STOP dcm-apply")
	if got := m.show("dcm-apply.service", "ActiveState")["ActiveState"]; got != "activating" {
		m.t.Fatalf("dcm-apply.service: want activating while a switch hangs, got %s", got)
	}
	act()
	m.run("systemctl kill --signal=CONT dcm-apply || :; dcm-sim fault --clear")
}

// converges expects the next apply to apply the profile and restart all clients.
func (m machine) converges(profile string) {
	m.t.Helper()
	m.put(settings, selecting(profile))
	m.run("systemctl restart dcm && dcm verify")
	m.run("systemctl is-active amd-metrics-exporter gpuagent dashboard")
	// The slice of the pending starts is ordered after the daemon's start.
	if jobs := m.run("systemctl list-jobs --no-legend | grep -v ' dcm_owes_' || :"); jobs != "" {
		m.t.Errorf("jobs after the run: want none, got %s", jobs)
	}
}

// interrupted is a scenario that does something during a run. The run, or its repetition by
// the daemon, applies the profile, and each client is restarted.
func interrupted(act string) func(machine) {
	return func(m machine) {
		before := m.units(exporter, agentUnit, dashboard)
		m.duringSPX(func() { m.run(act) })
		m.applied("spx-fast")
		m.rested(exporter, agentUnit, dashboard)
		m.has(spx)
		m.bounced(before)
		m.converges("cpx-fast")
	}
}

// startedWithClients: a start, not a restart, of the oneshot leaves the clients active. It names
// them and changes nothing.
func startedWithClients(m machine) {
	m.run("systemctl stop dcm dcm-apply") // the clients stop, too (PartOf=)
	for _, unit := range []string{exporter, agentUnit} {
		if got := m.show(unit, "ActiveState")["ActiveState"]; got != "inactive" {
			m.t.Errorf("%s: got %s after the stop of dcm-apply, want inactive", unit, got)
		}
	}
	m.put(settings, selecting("spx-fast"))
	m.run("systemctl start amd-metrics-exporter gpuagent dashboard")
	before := m.units(exporter, agentUnit, dashboard)
	modes := m.modes()
	if r := m.try("systemctl start dcm-apply"); r.Code == 0 {
		m.t.Error("start of the oneshot with active clients: want a failure")
	}
	run := m.lastRun()
	if run.Result != runstate.Refused || len(run.Holders) != 2 {
		m.t.Errorf("run: want refused with two holders, got %s with %+v", run.Result, run.Holders)
	}
	for gpu, mode := range m.modes() {
		if modes[gpu] != mode {
			m.t.Errorf("mode of %s: want %s, got %s", gpu, modes[gpu], mode)
		}
	}
	m.untouched(before)
	m.run("systemctl start dcm && dcm verify")
	m.bounced(before)
}
