package e2e_test

import (
	"strings"
	"time"

	"dcm/internal/report"
)

// soon is how fast a drift is noticed. The container's commands take some of it.
const soon = time.Second

// leaving is the settings with a drift that is only reported.
func leaving(profile string) string {
	return selecting(profile) + "[daemon]\ndrift = \"report\"\n"
}

// noticed is how long after the command began the daemon entered the phase.
func (m machine) noticed(before report.State, command string, phase report.Phase) time.Duration {
	m.t.Helper()
	began := time.Now()
	m.run(command)
	m.await("/run/dcm/state.json", `"phase": "`+string(phase)+`"`)
	s := m.state()
	if !s.Since.After(before.Since) {
		m.t.Errorf("the daemon is %s since %s, before anything happened", s.Phase, s.Since)
	}
	return s.Since.Sub(began)
}

// The driver that somebody reloads picks modes itself: SPX here.
func driverReloaded(m machine) {
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard")
	m.put("/run/systemd/system/dcm-apply.service.d/count.conf", "[Service]\nExecStartPre=+/bin/sh -c 'echo run >>/run/runs'\n")
	m.run("rm -f /run/runs; systemctl daemon-reload")
	before := m.state()
	m.run("modprobe -r amdgpu && modprobe amdgpu && systemctl start amd-metrics-exporter gpuagent dashboard")
	clients := m.units(exporter, agentUnit, dashboard)
	began := time.Now()
	m.await("/run/runs", "run")
	if d := time.Since(began); d > soon {
		m.t.Errorf("noticed after %s", d)
	}
	m.applied("cpx-fast")
	m.run("dcm verify")
	m.bounced(clients)
	// What the repair itself did to the devices is no reason for another one.
	m.run("udevadm settle 2>/dev/null || :; dcm-sim fault --clear; systemctl reload dcm")
	if got := m.run("cat /run/runs"); got != "run" {
		m.t.Errorf("runs: %q, want one", got)
	}
	if s := m.state(); s.Phase != report.InSync || s.PID != before.PID {
		m.t.Errorf("the daemon is %+v", s)
	}
	m.run("rm -r /run/systemd/system/dcm-apply.service.d && systemctl daemon-reload")
}

// A write to a mode's file is told to nobody by the driver.
func modeWritten(m machine) {
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard")
	clients := m.units(exporter, agentUnit, dashboard)
	gpu := m.run("ls -d /sys/bus/pci/devices/*/current_compute_partition | tail -1")
	m.run("echo QPX >" + gpu)
	m.await("/run/dcm/state.json", `"phase": "applying"`)
	m.applied("cpx-fast")
	m.run("dcm verify")
	m.untouched(clients) // down before, down after
	if got := m.lastRun(); got.Result != report.Applied || len(got.Steps) != 1 {
		m.t.Errorf("the run ended %s after %d steps", got.Result, len(got.Steps))
	}
}

func driftReported(m machine) {
	m.put(settings, leaving("cpx-fast"))
	m.run("systemctl restart dcm")
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard")
	before := m.state()
	if d := m.noticed(before, "modprobe -r amdgpu && modprobe amdgpu", report.Drifted); d > soon {
		m.t.Errorf("noticed after %s", d)
	}
	m.run("systemctl start amd-metrics-exporter gpuagent dashboard")
	clients := m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	if s := m.state(); s.Error == nil || !strings.Contains(s.Error.Text, "8 steps away") {
		m.t.Errorf("the daemon tells %+v", s.Error)
	}
	status := m.try("dcm status")
	if status.Code != 2 || !strings.Contains(status.Stdout, "changed by somebody else") {
		m.t.Errorf("dcm status ended with %d:\n%s", status.Code, status.Stdout)
	}
	if text := m.run("systemctl show --property=StatusText dcm"); !strings.Contains(text, "not on the GPUs any more") {
		m.t.Errorf("systemctl shows %q", text)
	}
	m.untouched(clients)
	delete(clients, "dcm-apply.service")
	m.run("dcm apply && dcm verify")
	m.bounced(clients)
	m.applied("cpx-fast")
}

// The daemon's view is the host's own: where the device and the kernel's messages
// of this machine are real, so is the proof that they arrive.
func daemonSeesTheHost(m machine) {
	m.run(`pid=$(systemctl show --property=MainPID --value dcm)
		[ "$(stat -c %d /sys)" = "$(nsenter --target "$pid" --mount stat -c %d /sys)" ]
		[ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/1/ns/net)" ]`)
	if m.try("nsenter --target $(systemctl show --property=MainPID --value dcm) --mount sh -c ': >/sys/bus/pci/devices/*/current_compute_partition'").Code == 0 {
		m.t.Error("the daemon may write modes")
	}
}
