package e2e_test

import (
	"strings"

	"dcm/internal/report"
)

// discovery: a service that nobody listed has a GPU open.
func discovery(m machine) {
	const unit = "inference.service"
	m.put("/etc/systemd/system/"+unit, "[Service]\nExecStart=/usr/local/bin/gpu-client\n")
	m.run("systemctl daemon-reload && systemctl start inference && systemd-run --quiet --unit=training gpu-client")
	for command, want := range map[string]string{
		"dcm check 2>&1 >/dev/null":                   unit + " has a GPU open and is not listed under [clients]",
		"dcm holders --units | grep inference":        unit + "  no ",
		"dcm holders --units | grep training":         training + "   unfit ",
		"dcm holders --units | grep gpuagent":         agentUnit + "   listed ",
		"dcm holders --units --json | grep inference": `"unit": "` + unit + `"`,
	} {
		if text := m.run(command); !strings.Contains(text, want) {
			m.t.Errorf("%s does not tell %q:\n%s", command, want, text)
		}
	}
	if text := m.run("dcm check 2>&1"); strings.Contains(text, training) {
		m.t.Errorf("dcm check tells of a user's job:\n%s", text)
	}

	// Named, and in the way.
	before := m.units(exporter, agentUnit, dashboard, unit)
	m.put(settings, selecting("spx-fast"))
	m.await("/run/dcm/state.json", `"phase": "waiting"`, unit+" has a GPU open and is not listed")
	m.untouched(before)
	if text := m.try("dcm status").Stdout; !strings.Contains(text, "warning: "+unit) {
		m.t.Errorf("dcm status does not name %s:\n%s", unit, text)
	}

	// Included, but the user's job is in the way still: a restart would be in vain.
	include := strings.Replace(selecting("spx-fast"), "[clients]", "[clients]\ndiscover = \"include\"", 1)
	m.put(settings, include)
	m.await("/run/dcm/state.json", `"phase": "waiting"`, settings+":1")
	m.untouched(before)
	m.run("systemctl stop training")
	m.applied("spx-fast")
	m.has(spx)
	m.bounced(before)
	m.run("grep -q dcm-apply.service /run/systemd/generator/" + unit + ".d/50-dcm.conf")
	if c := m.state().Clients; len(c) != 5 || c[4] != (report.Client{Unit: unit, Before: "active", Now: "active", Sub: "running", Result: "success", Back: true}) {
		m.t.Errorf("clients are %+v", c)
	}

	// A client like any other, with the same transaction.
	before = m.units(exporter, agentUnit, dashboard, unit)
	m.put(settings, strings.Replace(include, "spx-fast\"", "cpx-fast\"", 1))
	m.applied("cpx-fast")
	m.bounced(before)

	// Down, it is forgotten at the daemon's next start; so is everything when nothing is
	// to be discovered.
	m.run("systemctl restart dcm && ls /run/dcm/discovered.json")
	m.run("systemctl stop inference && systemctl restart dcm && ! ls /run/dcm/discovered.json /run/systemd/generator/" + unit + ".d")
	m.run("systemctl start inference")
	m.put(settings, include)
	m.applied("spx-fast")
	m.run("ls /run/systemd/generator/" + unit + ".d/50-dcm.conf")
	m.put(settings, selecting("spx-fast"))
	m.run("systemctl restart dcm && ! ls /run/dcm/discovered.json /run/systemd/generator/" + unit + ".d")
	m.run("systemctl stop inference")
}
