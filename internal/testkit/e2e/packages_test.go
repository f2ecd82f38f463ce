package e2e_test

import (
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// packages tests the scripts of the packages on a host with active clients.
func packages(t *testing.T, p product) {
	t.Parallel()
	newer := p.newer
	for _, recipe := range suites() {
		t.Run("deb on "+recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, p)
			m.ready()
			m.put("/root/newer.deb", string(only(t, newer+"/*_amd64.deb")))
			m.upgraded("dpkg --install /root/newer.deb </dev/null")
			m.removed("dpkg --remove dcm")
			m.run("test -e /etc/dcm/dcm.toml")
			m.run("dpkg --purge dcm && ! test -e /etc/dcm")
			if got := m.run("systemctl list-units --all --no-legend 'dcm*'"); got != "" {
				t.Errorf("files after the purge: want none, got %s", got)
			}
		})
	}
	t.Run("install.sh", func(t *testing.T) {
		t.Parallel()
		fromSource(t, p, newer)
	})
	t.Run("rpm", func(t *testing.T) {
		t.Parallel()
		seed, err := e2e.Node("mi300x-8", p.sim)
		if err != nil {
			t.Fatal(err)
		}
		m := boot(t, e2e.Trixie(), p.agent, seed)
		m.put("/root/dcm.rpm", string(only(t, p.packages+"/*.x86_64.rpm")))
		m.put("/root/newer.rpm", string(only(t, newer+"/*.x86_64.rpm")))
		// rpm does not see the packages that dpkg installed.
		m.run("rpm --install --nodeps /root/dcm.rpm")
		m.ready()
		m.upgraded("rpm --upgrade --nodeps /root/newer.rpm")
		m.removed("rpm --erase dcm")
		m.run("! test -e /usr/bin/dcm && test -e /etc/dcm/dcm.toml.rpmsave && ! test -e /etc/dcm/dcm.toml")
	})
}

// upgraded: an upgrade asks no question, keeps the selection and an edited dcm.toml, and restarts the
// daemon and no client.
func (m machine) upgraded(command string) {
	m.t.Helper()
	edited := "# edited\n" + selecting("cpx-fast")
	m.put(settings, edited)
	m.applied("cpx-fast")
	before := m.units(exporter, agentUnit, dashboard)
	modes := m.modes()
	m.run(command)
	m.untouched(before)
	if got := m.run("dcm version"); !strings.Contains(got, "0.1.1") {
		m.t.Errorf("state after the upgrade: got %s", got)
	}
	if got := m.state(); got.Program != "0.1.1" || got.Profile != "cpx-fast" {
		m.t.Errorf("after the upgrade daemon %s keeps %q", got.Program, got.Profile)
	}
	if got := m.run("cat " + settings); got != strings.TrimSpace(edited) {
		m.t.Errorf("dcm.toml is\n%s", got)
	}
	if got := m.run("ls -A /etc/dcm /etc/dcm/dcm.toml.d"); strings.Contains(got, "rpm") || strings.Contains(got, "dpkg") {
		m.t.Errorf("files of the package manager in /etc/dcm: %s", got)
	}
	m.run("dcm verify")
	for gpu, mode := range m.modes() {
		if modes[gpu] != mode {
			m.t.Errorf("%s: want %s, got %s", gpu, modes[gpu], mode)
		}
	}
}

// removed: the clients continue, and no unit of dcm is loaded or failed. Debian keeps the
// enablement of the units until the purge.
func (m machine) removed(command string) {
	m.t.Helper()
	before := m.units(exporter, agentUnit, dashboard)
	m.put(options, atLoadText(m.t))
	m.run(command)
	m.untouched(before)
	m.run("[ ! -e " + options + " ]")
	if got := m.run("systemctl list-units --all --no-legend 'dcm*' | grep -v 'not-found *inactive' || :"); got != "" {
		m.t.Errorf("files after the removal: want none, got %s", got)
	}
	if got := m.show(agentUnit, "DropInPaths")["DropInPaths"]; got != "" {
		m.t.Errorf("drop-ins after the removal: want none, got %s", got)
	}
}
