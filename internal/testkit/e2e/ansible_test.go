package e2e_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
)

// TestAnsible runs the role with Ansible on a simulated node. It is not part of make test,
// because its root is several times as large as the others.
func TestAnsible(t *testing.T) {
	if os.Getenv("DCM_ANSIBLE") == "" {
		t.Skip("the role is tried by make test-ansible, which sets DCM_ANSIBLE")
	}
	requireContainers(t)
	packages := buildPackages(t, "0.1.0")
	seed, err := e2e.Node("mi300x-8", build(t, "dcm/cmd/dcm-sim"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(seed, play(t))
	seed["/root/play/dcm.deb"] = e2e.File{Content: only(t, packages+"/*_amd64.deb")}
	m := boot(t, e2e.Ansible(), build(t, "./agent"), seed)

	t.Run("lint", func(t *testing.T) {
		m.in(t).run("cd /root/play && ansible-lint --offline --profile production --strict rollout.yml roles")
	})
	m.onNewHost()
	m.firstRun()
	m.secondRun()
	m.edited()
	m.refused()
	m.drifted()
}

// play returns the directory of the role, with an inventory of this machine.
func play(t *testing.T) e2e.Seed {
	t.Helper()
	const from = "../../../packaging/ansible"
	seed := e2e.Seed{"/root/play/hosts": {Content: []byte("[gpu]\nlocalhost ansible_connection=local ansible_python_interpreter=/usr/bin/python3\n")}}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		seed["/root/play"+strings.TrimPrefix(path, from)] = e2e.File{Content: content, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

var recap = regexp.MustCompile(`changed=(\d+) .*failed=(\d+)`)

// played runs the play with the arguments and returns its output and its numbers of changes
// and failures.
func (m machine) played(arguments string) (text, changed, failed string) {
	m.t.Helper()
	r := m.try("cd /root/play && ANSIBLE_NOCOLOR=1 ansible-playbook -i hosts rollout.yml " + arguments)
	found := recap.FindStringSubmatch(r.Stdout)
	if found == nil {
		m.t.Fatalf("output of the play: want a recap, got:\n%s%s", r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr, found[1], found[2]
}

// changes expects the play to report this number of changes and no failure.
func (m machine) changes(arguments, want string) string {
	m.t.Helper()
	text, changed, failed := m.played(arguments)
	if changed != want || failed != "0" {
		m.t.Fatalf("%s: changed %s, failed %s, want %s and 0:\n%s", arguments, changed, failed, want, text)
	}
	return text
}

func (m machine) onNewHost() {
	m.t.Helper()
	m.changes("--check --diff", "1")
	if r := m.try("ls /etc/dcm /usr/bin/dcm /var/cache/dcm.deb"); r.Code == 0 || strings.TrimSpace(r.Stdout) != "" {
		m.t.Errorf("check mode: want no change, got %s", r.Stdout)
	}
}

func (m machine) firstRun() {
	m.t.Helper()
	if text, _, failed := m.played(""); failed != "0" {
		m.t.Fatal(text)
	}
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
}

func (m machine) secondRun() {
	m.t.Helper()
	before := m.units(exporter, agentUnit, "dcm.service")
	m.changes("", "0")
	m.changes("--check --diff", "0")
	m.untouched(before)
}

// edited: check mode reports a new profile and changes nothing; then it is applied.
func (m machine) edited() {
	m.t.Helper()
	before, file := m.units(exporter, agentUnit, "dcm.service"), m.run("cat "+settings)
	m.run("sed -i 's/cpx-nps1/spx-nps1/' /root/play/rollout.yml")
	text := m.changes("--check --diff", "2") // the file, and the restart
	if !strings.Contains(text, "+profile = \"spx-nps1\"") {
		m.t.Errorf("difference in check mode: want the profile, got:\n%s", text)
	}
	if now := m.run("cat " + settings); now != file {
		m.t.Errorf("check mode: want no change, got %s", now)
	}
	m.untouched(before)
	m.played("")
	m.has(partition.Mode{Compute: partition.SPX, Memory: "NPS1"})
	m.changes("", "0")
}

// refused: the role does not install a configuration that dcm check refuses.
func (m machine) refused() {
	m.t.Helper()
	file := m.run("cat " + settings)
	m.run("sed -i 's/spx-nps1/spx-nps9/' /root/play/rollout.yml")
	for _, arguments := range []string{"--check", ""} {
		if text, _, failed := m.played(arguments); failed != "1" || !strings.Contains(text, "spx-nps9") {
			m.t.Errorf("%s: failed %s:\n%s", arguments, failed, text)
		}
	}
	if now := m.run("cat " + settings); now != file {
		m.t.Errorf("configuration after a refusal: want the old one, got %s", now)
	}
	m.run("sed -i 's/spx-nps9/spx-nps1/' /root/play/rollout.yml")
}

// drifted: the role compares the modes of the GPUs. It corrects a mode that was written by
// hand while the daemon was stopped.
func (m machine) drifted() {
	m.t.Helper()
	m.run("systemctl stop dcm amd-metrics-exporter gpuagent dashboard")
	m.run("echo CPX >$(ls -d /sys/bus/pci/devices/*/current_compute_partition | tail -1)")
	if text, _, failed := m.played(""); failed != "0" {
		m.t.Fatal(text)
	}
	m.has(partition.Mode{Compute: partition.SPX, Memory: "NPS1"})
}
