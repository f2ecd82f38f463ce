package e2e_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/e2e"
)

// flow tests the main use of dcm: install, configure, restart, reboot.
func flow(t *testing.T, p product) {
	t.Parallel()
	for _, recipe := range append(suites(), e2e.Forky()) {
		t.Run(recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, p)
			m.installed()
			m.configured()
			m.has(cpx)
			m.reboot()
			m.rebooted()
		})
	}
}

// installed: without a selected profile dcm changes nothing.
func (m machine) installed() {
	m.t.Helper()
	if got := m.run("systemctl is-enabled dcm dcm-apply"); got != "enabled\nenabled" {
		m.t.Errorf("units after the installation: want both enabled, got %q", got)
	}
	if got := m.state().Phase; got != runstate.Idle {
		m.t.Errorf("phase after the installation: want idle, got %s", got)
	}
	m.has(spx)
	if got := m.run("systemd-analyze verify --man=no dcm.service dcm-apply.service 2>&1"); got != "" {
		m.t.Errorf("systemd-analyze verify: want no output, got %s", got)
	}
	m.run("for page in dcm.1 dcm.toml.5 dcm.service.8; do zcat /usr/share/man/man${page##*.}/$page.gz | grep -q SYNOPSIS || exit 1; done")
}

func (m machine) configured() {
	m.t.Helper()
	clients := m.units(exporter, agentUnit, dashboard)
	m.put("/root/config.json", e2e.Kubernetes())
	m.run("dcm import /root/config.json >/etc/dcm/dcm.toml.d/10-kubernetes.toml")
	m.run(`sed -i 's/^#profile = .*/profile = "cpx-profile"/' /etc/dcm/dcm.toml`)
	m.run("systemctl restart dcm")
	m.has(cpx)
	if got := m.partitions(); got != "64" {
		m.t.Errorf("%s partitions, want 64", got)
	}
	m.run("dcm verify && dcm status")
	m.bounced(clients)
	if got := m.run("systemctl show --property=ActiveState --value " + idle); got != "inactive" {
		m.t.Errorf("client without a start: want inactive, got %s", got)
	}
	run := m.lastRun()
	if run.Result != runstate.Applied || run.Profile != "cpx-profile" {
		m.t.Errorf("run: want applied for cpx-profile, got %s for %s", run.Result, run.Profile)
	}
	reloads := 0
	for _, s := range run.Steps {
		if s.Kind == "reload" {
			reloads++
		}
	}
	if reloads != 1 {
		m.t.Errorf("driver reloads: want 1, got %d: %+v", reloads, run.Steps)
	}
}

// rebooted: dcm applies the profile before any client is started.
func (m machine) rebooted() {
	m.t.Helper()
	m.has(cpx)
	m.run("dcm verify && systemctl is-active dcm dcm-apply")
	run := m.lastRun()
	if run.Result != runstate.Applied || len(run.GPUs) != 8 || run.GPUs[0].Before.Mode != spx {
		m.t.Errorf("run at boot: want applied from SPX, got %s from %+v", run.Result, run.GPUs)
	}
	done := m.monotonic("dcm-apply.service", "ExecMainExitTimestampMonotonic")
	for _, unit := range []string{exporter, agentUnit} {
		if began := m.monotonic(unit, "ExecMainStartTimestampMonotonic"); done == 0 || began < done {
			m.t.Errorf("start of %s: got %d µs, want it after the run at %d µs", unit, began, done)
		}
	}
	want := map[string]string{exporter: "active", agentUnit: "active", dashboard: "active"}
	got := make(map[string]string)
	for unit := range want {
		got[unit] = m.show(unit, "ActiveState")["ActiveState"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Errorf("units after the boot (-want +got):\n%s", diff)
	}
}

func (m machine) monotonic(unit, property string) int64 {
	m.t.Helper()
	n, err := strconv.ParseInt(m.show(unit, property)[property], 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}
