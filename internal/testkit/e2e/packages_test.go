package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dcm/internal/testkit/e2e"
)

// packages tests the scripts of the packages on a host with active clients.
func packages(t *testing.T, p product) {
	t.Parallel()
	former, newer := formerPackages(t), p.newer
	for _, recipe := range suites() {
		t.Run("deb on "+recipe.Suite, func(t *testing.T) {
			t.Parallel()
			m := install(t, recipe, product{agent: p.agent, sim: p.sim, packages: former})
			m.ready()
			m.put("/root/dcm.deb", string(only(t, p.packages+"/*_amd64.deb")))
			m.takenOver("dpkg --install /root/dcm.deb </dev/null")
			m.put("/root/newer.deb", string(only(t, newer+"/*_amd64.deb")))
			m.upgraded("dpkg --install /root/newer.deb")
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
		m.put("/root/former.rpm", string(only(t, former+"/*.x86_64.rpm")))
		m.put("/root/dcm.rpm", string(only(t, p.packages+"/*.x86_64.rpm")))
		m.put("/root/newer.rpm", string(only(t, newer+"/*.x86_64.rpm")))
		// rpm does not see the packages that dpkg installed.
		m.run("rpm --install --nodeps /root/former.rpm")
		m.ready()
		m.takenOver("rpm --upgrade --nodeps /root/dcm.rpm")
		m.upgraded("rpm --upgrade --nodeps /root/newer.rpm")
		m.removed("rpm --erase dcm")
		m.run("! test -e /usr/bin/dcm && test -e /etc/dcm/dcm.toml.rpmsave && ! test -e /etc/dcm/dcm.toml")
	})
}

// formerPackages builds packages of a version in which dcm.toml is a conffile.
func formerPackages(t *testing.T) string {
	t.Helper()
	recipe, err := os.ReadFile("../../../packaging/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const template = "dst: /usr/share/dcm/dcm.toml\n"
	ghost := regexp.MustCompile(`    dst: /etc/dcm/dcm.toml\n    type: ghost\n    packager: rpm\n`)
	text := strings.Replace(string(recipe), template, "dst: /usr/share/dcm/unused.toml\n", 1)
	text = ghost.ReplaceAllString(text, "    dst: /etc/dcm/dcm.toml\n    type: config|noreplace\n")
	if text == string(recipe) || !strings.Contains(text, "noreplace") {
		t.Fatal("packaging/nfpm.yaml: no entry that this test can change")
	}
	file := filepath.Join(t.TempDir(), "nfpm.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return buildPackages(t, "0.0.9", "RECIPE="+file)
}

// takenOver runs an upgrade from the former packages. It asks no question, restarts no client,
// and leaves an edited dcm.toml as it is.
func (m machine) takenOver(command string) {
	m.t.Helper()
	edited := "# edited\n" + selecting("cpx-fast")
	m.put(settings, edited)
	m.applied("cpx-fast")
	before := m.units(exporter, agentUnit, dashboard)
	m.run(command)
	m.untouched(before)
	if got := m.run("cat " + settings); got != strings.TrimSpace(edited) {
		m.t.Errorf("dcm.toml is\n%s", got)
	}
	if got := m.run("ls -A /etc/dcm /etc/dcm/dcm.toml.d"); strings.Contains(got, "rpm") || strings.Contains(got, "dpkg") {
		m.t.Errorf("there are %s", got)
	}
	m.run("dcm verify")
	m.put(settings, selecting("cpx-fast"))
}

// upgraded: an upgrade keeps the selection, restarts the daemon and no client.
func (m machine) upgraded(command string) {
	m.t.Helper()
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
