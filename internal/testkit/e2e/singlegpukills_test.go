package e2e_test

import (
	"strings"

	"dcm/internal/engine/runstate"
)

// killedChange is a change during which the daemon is killed. The GPU can be made to hang in it.
type killedChange struct {
	from, to      string
	kept          []string // units of other GPUs and of what stays
	affected      []string // the first of them takes a second to stop
	hang, release func()
}

// killedAt kills the daemon with SIGKILL while the condition of a shell holds. The change is completed, or
// made by the next daemon. No unit is lost, and the units that the change does not concern continue.
func (m machine) killedAt(c killedChange, condition string) {
	m.t.Helper()
	m.run("dcm use " + c.from)
	kept, affected := m.units(c.kept...), m.units(c.affected...)
	c.hang()
	m.run("setsid dcm use " + c.to + " >/run/use.log 2>&1 & " + waitFor(condition) + "; systemctl kill --signal=KILL dcm")
	c.release()
	m.await("/run/dcm/state.json", `"phase": "in-sync"`, `"profile": "`+c.to+`"`)
	m.rested(c.affected...)
	m.untouched(kept)
	m.bounced(affected)
	m.exits(0, "dcm status")
	m.t.Logf("killed while %s", condition)
}

// killed kills the daemon at each call of a change: after it has saved its request, when systemd has the
// jobs of the run, while a unit stops, and during the run.
func (m machine) killed(c killedChange) {
	m.put("/etc/systemd/system/"+c.affected[0]+".d/50-slow.conf", "[Service]\nExecStop=sleep 1\n")
	m.run("systemctl daemon-reload")
	during := c
	c.hang, c.release = func() {}, func() {}
	m.killedAt(c, `grep -q \"applying\" /run/dcm/state.json`)
	m.killedAt(c, "systemctl list-jobs --no-legend dcm-change.service | grep -q .")
	m.killedAt(c, "systemctl is-active "+c.affected[0]+" | grep -q deactivating")
	m.killedAt(during, `grep -q \"running\" /run/dcm/report.json`)
	m.run("rm -r /etc/systemd/system/" + c.affected[0] + ".d; systemctl daemon-reload")
}

func killedDuringChange(m machine) {
	m.killed(killedChange{
		from: "same", to: "third", kept: workers(3), affected: []string{"worker@3.service", "watcher.service"},
		hang:    func() { m.run("dcm-sim fault --gpu 0000:65:00.0 --op compute --hang forever") },
		release: func() { m.run("dcm-sim fault --clear") },
	})
}

func killedDuringMIGChange(m machine) {
	m.killed(killedChange{
		from: "before", to: "after", kept: append(workers(3), "kept@a.service", "kept@b.service"), affected: []string{"moved.service"},
		hang:    func() { m.knob("hang nvmlDeviceCreateGpuInstanceWithPlacement") },
		release: func() { m.knob("") },
	})
}

// noRoom: the driver has no room for a new instance next to two in use. The change is undone and names
// their users, and the next attempt stops these too. The units of other GPUs continue.
func noRoom(m machine) {
	m.run("dcm use before")
	kept, affected := m.units(workers(3)...), m.units("kept@a.service", "kept@b.service", "moved.service")
	m.knob("fail nvmlDeviceCreateGpuInstanceWithPlacement 23 0 1 0000:61:00.0")
	if r := m.try("dcm use after"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "kept@a.service") {
		m.t.Errorf("dcm use: want a failure that names kept@a.service, got %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m.await("/run/dcm/state.json", `"phase": "in-sync"`, `"profile": "after"`)
	m.knob("")
	m.untouched(kept)
	m.bounced(affected)
	if r := m.lastRun(); r.Result != runstate.Applied || !strings.HasPrefix(r.Steps[0].String(), "destroy ") || r.Steps[0].Kept != nil {
		m.t.Errorf("run: want applied, with all instances destroyed, got %s with %v", r.Result, r.Steps)
	}
	m.exits(0, "dcm status")
}

// startFails: a service that was started while a GPU changes, and failed, is reported. It is no client, so
// it does not wait.
func startFails(m machine) {
	const unit = "late.service"
	m.run("dcm use same; dcm-sim fault --gpu 0000:65:00.0 --op compute --hang forever")
	m.run("setsid sh -c 'dcm use third; echo exit status $?' >/run/use.log 2>&1 </dev/null & " + waitFor(`grep -q \"running\" /run/dcm/report.json`) + "; systemd-run --quiet --unit=" + unit + " false; dcm-sim fault --clear")
	m.await("/run/use.log", "exit status")
	if out := m.run("cat /run/use.log"); !hasAll(out, unit+" was started during the change and failed; systemctl restart "+unit, "exit status 0") {
		m.t.Errorf("dcm use: want a warning about %s, got %q", unit, out)
	}
	if warnings := m.account().Warnings; len(warnings) != 1 || !strings.HasPrefix(warnings[0], unit) {
		m.t.Errorf("warnings: want one of %s, got %q", unit, warnings)
	}
	m.run("dcm apply 2>&1 | grep " + unit + "; systemctl reset-failed " + unit + "; dcm apply")
	if warnings := m.account().Warnings; len(warnings) > 0 {
		m.t.Errorf("warnings after another pass: want none, got %q", warnings)
	}
}
