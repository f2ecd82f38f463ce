package e2e_test

import (
	"strings"

	"dcm/internal/frontends/status"
)

const lost = "0000:c6:00.0"

// healthShown: dcm status, the bus and the status text of the unit show the same problem, and
// no problem when it is over.
func healthShown(m machine) {
	if got := m.healthIs(status.Healthy).Profile.Applied; got != "cpx-fast" {
		m.t.Errorf("applied profile: want cpx-fast, got %q", got)
	}

	m.run("systemctl stop dcm-apply")
	a := m.healthIs(status.Clients, "dcm-apply.service", agentUnit)
	m.shows(manager+" Health", `s "clients-down"`)
	m.statusTextIs(a)
	m.run("systemctl start dcm-apply amd-metrics-exporter gpuagent dashboard")
	m.shows(manager+" Health", `s "healthy"`) // the daemon publishes it without a request
	m.exits(0, "dcm status")

	m.run("systemctl disable --quiet dcm-apply")
	m.healthIs(status.Disabled, "dcm-apply.service")
	m.run("systemctl enable --quiet dcm-apply; systemctl stop dcm")
	m.healthIs(status.Down, "dcm.service")
	m.run("systemctl start dcm")
	m.exits(0, "dcm status")

	m.run("dcm-sim fault --gpu " + lost + " --vanish")
	a = m.healthIs(status.Missing, lost)
	if a.Managed() != 7 || a.Expected.GPUs != 8 {
		m.t.Errorf("GPUs: want 7 of 8, got %d of %d", a.Managed(), a.Expected.GPUs)
	}
	m.shows(manager+" InSync", "b false")
	m.exits(2, "dcm verify", lost)
	if got := m.try("dcm partitions --all").Stdout; strings.Count(got, " CPX/NPS1 ") != 7*8 {
		m.t.Errorf("dcm partitions: want 56, got:\n%s", got)
	}
	m.run("dcm-sim reset; systemctl restart dcm")
	m.converges("cpx-fast")
	m.exits(0, "dcm status")
}
