package e2e_test

import (
	"strings"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
)

func clientsComeBack(m machine) {
	before := m.units(exporter, agentUnit, dashboard)
	m.put(settings, selecting("spx-fast"))
	m.run("systemctl restart dcm")
	m.has(spx)
	m.bounced(before)
	if got := m.show(idle, "ActiveState")["ActiveState"]; got != "inactive" {
		m.t.Errorf("client without a start: want inactive, got %s", got)
	}
	type client struct {
		Before, Now string
		Back        bool
	}
	want := map[string]client{
		exporter:  {"active", "active", true},
		agentUnit: {"active", "active", true},
		dashboard: {"active", "active", true}, // which requires one of them
		idle:      {"inactive", "inactive", true},
		absent:    {"not-found", "not-found", true},
	}
	got := make(map[string]client)
	for _, c := range m.state().Clients {
		got[c.Unit] = client{c.Before, c.Now, c.Back}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Errorf("clients in the state (-want +got):\n%s", diff)
	}
	if text := m.run("dcm status"); !strings.Contains(text, absent) {
		m.t.Errorf("dcm status: want the client that is not installed, got:\n%s", text)
	}
}

func nothingToDo(m machine) {
	before := m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	m.run("systemctl restart dcm")
	m.untouched(before)
	// The other line number shows that the daemon has read the edit.
	m.put(settings, "# a comment\n\n"+selecting("cpx-fast"))
	m.await("/run/dcm/state.json", `"phase": "in-sync"`, settings+":3")
	m.untouched(before)
}

// clientStartedDuringRun: the start of a client waits until the run ends.
func clientStartedDuringRun(m machine) {
	m.duringSPX(func() {
		m.run("systemctl start --no-block " + idle)
		if got := m.show(idle, "ActiveState")["ActiveState"]; got != "inactive" {
			m.t.Errorf("client started during a run: want inactive, got %s", got)
		}
	})
	m.applied("spx-fast")
	m.run("systemctl start " + idle) // waits for the job that is queued already
	done := m.monotonic("dcm-apply.service", "ExecMainExitTimestampMonotonic")
	if began := m.monotonic(idle, "ExecMainStartTimestampMonotonic"); began < done {
		m.t.Errorf("start of the client: got %d µs, want it after the run at %d µs", began, done)
	}
	m.has(spx)
}

// systemd lets a unit fail after five restarts in ten seconds. Here the interval is an hour, for slow
// machines.
func startLimits(m machine) {
	m.put("/run/systemd/system/gpuagent.service.d/limit.conf", "[Unit]\nStartLimitIntervalSec=1h\n")
	m.run("systemctl daemon-reload")
	before := m.units(exporter, agentUnit, dashboard)
	for _, profile := range []string{"spx-fast", "cpx-fast", "spx-fast", "cpx-fast", "spx-fast", "cpx-fast", "spx-fast", "cpx-fast"} {
		m.run("dcm apply " + profile)
	}
	m.bounced(before)
	m.run("rm -r /run/systemd/system/gpuagent.service.d && systemctl daemon-reload")
}

func foreignHolder(m machine) {
	m.run("systemd-run --quiet --unit=training gpu-client")
	before := m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	pid := m.show(training, "MainPID")["MainPID"]
	m.put(settings, selecting("spx-fast"))
	m.await("/run/dcm/state.json", `"phase": "waiting"`, training)
	m.untouched(before)
	holders := m.state().Holders
	if len(holders) != 1 || holders[0].Unit != training || holders[0].Command == "" || len(holders[0].Devices) == 0 {
		m.t.Errorf("holders: want the process and its unit, got %+v", holders)
	}
	for _, command := range []string{"dcm status", "dcm holders", "systemctl status dcm"} {
		if text := m.try(command).Stdout; !strings.Contains(text, pid) || !strings.Contains(text, training) {
			m.t.Errorf("%s: want process %s of %s, got:\n%s", command, pid, training, text)
		}
	}
	if got := m.lastRun().Profile; got == "spx-fast" {
		m.t.Error("run with a holder: want none")
	}
	m.run("systemctl stop training")
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(map[string]string{exporter: before[exporter], agentUnit: before[agentUnit], dashboard: before[dashboard]})
}

// A start fails while a holder uses the GPUs, and so does a second one right after it. The next restart by
// systemd succeeds after the holder has ended. A daemon-reexec before that must not make dcm take the
// restart for a manual start.
func startedWhileBusy(m machine) {
	m.run("systemctl stop dcm; systemd-run --quiet --unit=training gpu-client")
	m.put(settings, selecting("spx-fast"))
	before := m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	inUse := m.newEntries("--unit=dcm MESSAGE_ID=" + string(event.InUse))
	for range 2 {
		if r := m.try("systemctl restart dcm"); r.Code == 0 {
			m.t.Error("start of the daemon with a holder: want a failure")
		}
	}
	m.run("systemctl daemon-reexec; systemctl start dcm")
	if p := m.show("dcm.service", "ActiveState", "NRestarts"); p["ActiveState"] != "active" || p["NRestarts"] != "1" {
		m.t.Errorf("dcm.service: want active after one restart, got %v", p)
	}
	if s := m.state(); s.Phase != runstate.Waiting || len(s.Holders) != 1 {
		m.t.Errorf("phase and holders: want waiting and one, got %s and %v", s.Phase, s.Holders)
	}
	if r := m.try("systemctl reload dcm"); r.Code != 0 { // the root has no kill(1)
		m.t.Errorf("systemctl reload dcm: want success, got %s", r.Stderr)
	}
	m.untouched(before)
	// Once for each manual start.
	if all := inUse(); len(all) != 2 {
		m.t.Errorf("messages about the holder: want 2, got %v", all)
	}
	m.run("systemctl stop training")
	m.applied("spx-fast")
	m.has(spx)
}

func oneGPUFails(m machine) {
	before := m.units(exporter, agentUnit, dashboard)
	modes := m.modes()
	m.run("dcm-sim fault --gpu $(ls /sys/bus/pci/devices | tail -1) --op compute --errno EINVAL --times 3")
	m.put(settings, selecting("spx-fast"))
	m.await("/run/dcm/state.json", `"phase": "failed"`)
	if diff := cmp.Diff(modes, m.modes()); diff != "" {
		m.t.Errorf("modes (-before +after):\n%s", diff)
	}
	if got := m.lastRun().Result; got != runstate.RolledBack {
		m.t.Errorf("result of the run: want rolled-back, got %s", got)
	}
	m.bounced(before)
}

// With require = true no client starts unless the profile is applied. This profile fits no MI300X.
func required(m machine) {
	m.run("systemctl stop dcm")
	m.put(settings, `profile = "tpx-nps1"
[clients]
units = ["amd-metrics-exporter", "gpuagent"]
require = true
`)
	m.reboot()
	for _, unit := range []string{exporter, agentUnit} {
		if got := m.show(unit, "ActiveState")["ActiveState"]; got != "inactive" {
			m.t.Errorf("%s without its required profile: want inactive, got %s", unit, got)
		}
	}
	m.until("systemctl status --lines=2 dcm | grep TPX") // not at the moment when systemd starts it again
	m.has(spx)
	m.put(settings, selecting("cpx-fast"))
	m.run("systemctl restart dcm && dcm verify && systemctl start amd-metrics-exporter gpuagent dashboard")
}
