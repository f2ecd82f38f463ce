package e2e_test

import (
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
)

// The driver is in use although no process has it open. dcm restarts the clients once and does not reboot
// the host.
func unseenHolder(m machine) {
	m.run("systemd-run --quiet --unit=flight e2e-agent flight /dev/dri/renderD128 /run/flight")
	m.await("/run/flight", "in flight")
	boot, clients := m.bootID(), []string{exporter, agentUnit, dashboard}
	before := m.units(clients...)
	m.put(settings, selecting("cpx-nps4")+"[apply]\nreboot = \"once\"\n")
	m.await("/run/dcm/state.json", `"phase": "waiting"`, `"unseen"`)
	m.bounced(before)
	if s := m.state(); s.Unseen == nil || s.Unseen.Unseen != 1 || !s.Retry.IsZero() {
		m.t.Errorf("state %+v; want one use unseen, and no next try by the clock", s)
	}
	a := m.healthIs(status.Held)
	m.statusTextIs(a)
	if text := m.state().Error.Text; !strings.Contains(m.run("journalctl --sync; journalctl --unit=dcm --lines=30 --output=cat"), text) {
		m.t.Errorf("journal: want the daemon's error %q", text)
	}
	// A restart of the daemon and an event of the kernel must not cause another restart of the clients.
	before = m.units(clients...)
	run := m.lastRun().ID
	m.run("systemctl kill --signal=KILL --kill-whom=main dcm; e2e-agent await /run/dcm/state.json '\"phase\": \"waiting\"' 'no client is restarted for it'")
	m.untouched(before)
	if got := m.lastRun(); got.ID != run || got.Result == runstate.Applied || m.bootID() != boot {
		m.t.Errorf("run and boot: want no other, got %+v", got)
	}
	m.run("systemctl stop flight")
	m.applied("cpx-nps4")
	m.has(cpx)
	m.bounced(before)
}
