package e2e_test

import (
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
)

func editIsApplied(m machine) {
	before := m.units(exporter, agentUnit, dashboard)
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(before)
}

func brokenEdit(m machine) {
	before := m.units(exporter, agentUnit, dashboard, "dcm-apply.service")
	modes := m.modes()
	m.put(settings, "profile = \"cpx-fast\"\n"+"colour = \"red\"\n")
	m.await("/run/dcm/state.json", settings+":2", "colour")
	m.untouched(before)
	if got := m.modes(); len(got) != len(modes) {
		m.t.Errorf("modes: got %v, want %v", got, modes)
	}
	status := m.try("dcm status")
	journal := m.run("journalctl --boot --unit=dcm --output=cat --lines=50")
	for where, text := range map[string]string{"dcm status": status.Stdout, "the journal": journal} {
		if !strings.Contains(text, settings+":2") || !strings.Contains(text, "colour") {
			m.t.Errorf("%s: want the line of the mistake, got:\n%s", where, text)
		}
	}
	if got := m.show("dcm.service", "ActiveState")["ActiveState"]; got != "active" {
		m.t.Errorf("the daemon is %s", got)
	}
	m.lastGoodStaysEffective()
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	if got := m.state(); got.Config != "" {
		m.t.Errorf("error of the repaired configuration: want none, got %s", got.Config)
	}
}

// lastGoodStaysEffective: while the file is broken, the last good configuration remains effective
// for the daemon, a daemon-reload, runs, and the daemon's next start.
func (m machine) lastGoodStaysEffective() {
	m.t.Helper()
	dropins := m.show(agentUnit, "DropInPaths")["DropInPaths"]
	m.run("systemctl daemon-reload")
	if got := m.show(agentUnit, "DropInPaths")["DropInPaths"]; got == "" || got != dropins {
		m.t.Errorf("drop-ins after a daemon-reload: got %q, want %q", got, dropins)
	}
	before := m.units(exporter, agentUnit, dashboard)
	m.run("systemctl restart dcm-apply")
	m.rested(exporter, agentUnit, dashboard)
	m.bounced(before)
	run := m.lastRun()
	if run.Result != runstate.Unchanged || !strings.Contains(run.Config, settings+":2") {
		m.t.Errorf("run: want unchanged with the mistake's line, got %+v", run)
	}
	m.exits(0, "dcm report", settings+":2")
	state := m.state()
	m.run("systemctl stop amd-metrics-exporter gpuagent dashboard && echo SPX >/sys/bus/pci/devices/0000:05:00.0/current_compute_partition")
	m.await("/run/dcm/report.json", `"result": "applied"`)
	m.applied("cpx-fast")
	m.has(partition.Mode{Compute: "CPX", Memory: "NPS1"})
	m.run("systemctl kill --signal=KILL dcm; rm /run/dcm/state.json")
	m.await("/run/dcm/state.json", `"phase": "in-sync"`, settings+":2")
	if now := m.state(); now.Profile != "cpx-fast" || now.PID == state.PID {
		m.t.Errorf("state of the restarted daemon: want cpx-fast in another process, got %+v", now)
	}
}

// brokenAtBoot: a configuration that is broken at boot does not affect the clients.
func brokenAtBoot(m machine) {
	m.run("systemctl stop dcm") // otherwise the daemon would read the edit before the boot
	m.put(settings, "profile = \"cpx-fast\"\nclients = \n")
	m.reboot()
	if got := m.try("systemctl is-system-running").Stdout; got != "degraded\n" {
		m.t.Errorf("state of the system: got %q", got)
	}
	for _, unit := range []string{exporter, agentUnit, dashboard} {
		if got := m.show(unit, "ActiveState")["ActiveState"]; got != "active" {
			m.t.Errorf("%s is %s", unit, got)
		}
	}
	// The first start of the daemon failed. systemd has restarted it.
	m.await("/run/dcm/state.json", `"phase": "failed"`, settings+":2")
	m.run("systemctl start dcm") // waits for the queued restart
	if text := m.try("systemctl status dcm").Stdout; !strings.Contains(text, settings+":2") {
		m.t.Errorf("systemctl status dcm: want the reason, got:\n%s", text)
	}
	m.has(spx)
	m.put(settings, selecting("cpx-fast"))
	m.applied("cpx-fast")
	m.run("dcm verify")
	if got := m.state().Phase; got != runstate.InSync {
		m.t.Errorf("phase after the repair: got %s", got)
	}
}

// selections: `dcm use` writes the profile to the file. A selection by `dcm apply PROFILE` ends
// with the boot or with another selection.
func selections(m machine) {
	m.run("dcm use spx-fast")
	m.has(spx)
	if got := m.run("cat " + settings); got != strings.TrimSpace(selecting("spx-fast")) {
		m.t.Errorf("configuration after dcm use: want one changed line, got\n%s", got)
	}
	m.run(`sed -i 's/^profile = .*/profile = "cpx-fast"/' ` + settings + ` && systemctl restart dcm && dcm verify`)
	m.has(partition.Mode{Compute: "CPX", Memory: "NPS1"})

	m.run("dcm apply spx-fast")
	m.has(spx)
	m.run(`sed -i 's/^profile = .*/profile = "dpx-nps2"/' ` + settings)
	m.applied("dpx-nps2")
	m.run("test ! -e /run/dcm/dcm.toml.d/zz-selected.toml")
	if !slices.ContainsFunc(m.entries("--unit=dcm --lines=50"), func(e entry) bool {
		text, _ := e["MESSAGE"].(string)
		return hasAll(text, "spx-fast", "dpx-nps2", settings+":1")
	}) {
		m.t.Error("journal: want a message with the selection that ended and the one in its place")
	}

	m.put("/etc/dcm/dcm.toml.d/70-other.toml", "\nprofile = \"cpx-fast\"\n")
	m.applied("cpx-fast")
	for _, command := range []string{"dcm use spx-fast", "dcm use none", "dcm use --clear", "busctl call " + manager + " Use s spx-fast"} {
		if r := m.try(command); r.Code == 0 || !strings.Contains(r.Stderr, "/etc/dcm/dcm.toml.d/70-other.toml:2") {
			m.t.Errorf("%s with a drop-in that selects: want a failure that names it, got %d: %s", command, r.Code, r.Stderr)
		}
	}
	m.run("rm /etc/dcm/dcm.toml.d/70-other.toml; dcm use none")
	m.healthIs(status.Idle)
	m.run("dcm use spx-fast")

	m.run("dcm apply dpx-nps2")
	m.has(partition.Mode{Compute: "DPX", Memory: "NPS2"})
	if text := m.run("dcm status"); !strings.Contains(text, "until reboot") {
		m.t.Errorf("dcm status: want a temporary selection, got:\n%s", text)
	}
	m.reboot()
	m.applied("spx-fast")
	m.has(spx)
}

// refuseInotify makes inotify_init1 fail in the daemon by its seccomp filter. The kernel's own
// limit is for all processes of a user, in all containers.
func (m machine) refuseInotify() {
	m.t.Helper()
	m.put("/run/systemd/system/dcm.service.d/inotify.conf", "[Service]\nSystemCallFilter=~inotify_init inotify_init1\nSystemCallErrorNumber=EMFILE\n")
	m.run("systemctl daemon-reload; systemctl restart dcm")
}

func (m machine) allowInotify() {
	m.t.Helper()
	m.run("rm -r /run/systemd/system/dcm.service.d; systemctl daemon-reload; systemctl restart dcm")
}

func withoutInotify(m machine) {
	m.refuseInotify()
	const sysctl = "fs.inotify.max_user_instances"
	if text := m.try("dcm status").Stdout; !strings.Contains(text, sysctl) {
		m.t.Errorf("dcm status: want %s, got:\n%s", sysctl, text)
	}
	m.put(settings, selecting("spx-fast"))
	m.applied("spx-fast")
	m.has(spx)
	m.allowInotify()
	if text := m.try("dcm status").Stdout; strings.Contains(text, sysctl) {
		m.t.Errorf("dcm status with inotify: want no %s, got:\n%s", sysctl, text)
	}
}
