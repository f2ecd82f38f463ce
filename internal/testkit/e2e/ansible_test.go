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

// ansibleNode builds the packages and returns their directory, and a simulated node with the role and the DEB
// package. It skips the test unless DCM_ANSIBLE is set.
func ansibleNode(t *testing.T) (packages string, seed e2e.Seed) {
	t.Helper()
	if os.Getenv("DCM_ANSIBLE") == "" {
		t.Skip("the role is tried by make test-ansible, which sets DCM_ANSIBLE")
	}
	requireContainers(t)
	packages = buildPackages(t, "0.1.0")
	seed, err := e2e.Node("mi300x-8", build(t, "dcm/cmd/dcm-sim"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(seed, play(t))
	seed["/root/play/dcm.deb"] = e2e.File{Content: only(t, packages+"/*_amd64.deb")}
	return packages, seed
}

// TestAnsible runs the role with Ansible on a simulated node. It is not part of make test,
// because its root is several times as large as the others.
func TestAnsible(t *testing.T) {
	_, seed := ansibleNode(t)
	m := boot(t, e2e.Ansible(), build(t, "./agent"), seed)

	t.Run("lint", func(t *testing.T) {
		m.in(t).run("cd /root/play && ansible-lint --offline --profile production --strict rollout.yml roles galaxy.yml meta")
	})
	m.onNewHost()
	m.firstRun()
	m.secondRun()
	m.edited()
	m.refused()
	m.drifted()
	m.sick()
	m.failing()
	m.rescued()
	m.drainedBefore()
	m.collected()
	m.absent()
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
	return withRepository(seed)
}

// withRepository adds the key to galaxy.yml that ansible-lint requires. The project has no public address yet.
func withRepository(seed e2e.Seed) e2e.Seed {
	file := seed["/root/play/galaxy.yml"]
	file.Content = append(file.Content, "repository: https://example.org/dcm\n"...)
	seed["/root/play/galaxy.yml"] = file
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

// sick: check mode fails on a host whose GPUs cannot be read.
func (m machine) sick() {
	m.t.Helper()
	m.changes("--check", "0")
	m.run("dcm-sim fault --op read --errno EIO --times always")
	if text, changed, failed := m.played("--check"); failed != "1" || changed != "0" || !strings.Contains(text, "input/output error") {
		m.t.Errorf("unhealthy host in check mode: changed %s, failed %s:\n%s", changed, failed, text)
	}
	m.run("dcm-sim fault --clear; dcm verify")
	m.changes("--check", "0")
}

// failing: the play prints the reason of dcm when the restart fails. Check mode then reports the change again.
func (m machine) failing() {
	m.t.Helper()
	m.run("dcm-sim fault --op compute --errno EIO --times always; sed -i 's/spx-nps1/cpx-nps1/' /root/play/rollout.yml")
	text, _, failed := m.played("")
	if failed != "1" || !hasAll(text, "Fail with the reason", "Restart dcm", "problem: ", "input/output error") {
		m.t.Errorf("failed restart: failed %s:\n%s", failed, text)
	}
	m.changes("--check", "2") // the comparison, and the restart
}

// rescue is a play that continues on a host where the role fails.
const rescue = `- hosts: gpu
  tasks:
    - block:
        - ansible.builtin.include_role:
            name: dcm
          vars:
            dcm_config:
              profile: cpx-nps1
      rescue:
        - ansible.builtin.debug:
            msg: "rescued: {{ ansible_failed_result.msg }}"
`

// rescued: a play can rescue a host where the restart fails, and has dcm's reason. After the repair the role
// applies the profile.
func (m machine) rescued() {
	m.t.Helper()
	m.put("/root/play/rescue.yml", rescue)
	text := m.run("cd /root/play && ANSIBLE_NOCOLOR=1 ansible-playbook -i hosts rescue.yml")
	if !hasAll(text, "rescued: ", "input/output error", "failed=0", "rescued=2") {
		m.t.Errorf("play with a rescue:\n%s", text)
	}
	m.run("dcm-sim fault --clear")
	if text, _, failed := m.played(""); failed != "0" {
		m.t.Fatal(text)
	}
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.run("sed -i 's/cpx-nps1/spx-nps1/' /root/play/rollout.yml")
	m.played("")
	m.changes("", "0")
}

// engine replaces the commands of Slurm and Kubernetes. It logs each call with the number of partitions at
// that time. The node has one job at the first query.
const engine = `#!/bin/sh
echo "${0##*/} $* $(dcm partitions --json | grep -c '"index"')" >>/root/calls
case "${0##*/} $*" in
"scontrol --oneliner show"*) echo "NodeName=localhost State=$(cat /root/state)" ;;
"kubectl get"*) cat /root/state ;;
squeue*) [ -e /root/jobs ] && echo job; rm -f /root/jobs ;;
esac
`

// drainedBefore: the role drains the node before a change, and resumes it only if it was not drained before.
func (m machine) drainedBefore() {
	m.t.Helper()
	m.put("/usr/local/bin/scontrol", engine)
	m.run("cd /usr/local/bin && chmod +x scontrol && ln -s scontrol squeue && ln -s scontrol kubectl")
	scontrol := []string{"scontrol --oneliner show node localhost", "scontrol update NodeName=localhost State=DRAIN Reason=dcm: change of the GPUs", "squeue", "squeue", "scontrol update NodeName=localhost State=RESUME"}
	kubectl := []string{"kubectl get node localhost -o jsonpath={.spec.unschedulable}", "kubectl drain localhost --ignore-daemonsets --delete-emptydir-data --timeout=60s", "kubectl uncordon localhost"}
	profile := "spx-nps1"
	for _, s := range []struct {
		engine, state string
		calls         []string
	}{
		{"slurm", "IDLE", scontrol},
		{"slurm", "IDLE+DRAIN", []string{scontrol[0], scontrol[2], scontrol[3]}},
		{"kubernetes", "", kubectl},
		{"kubernetes", "true", kubectl[:2]},
	} {
		next := map[string]string{"spx-nps1": "cpx-nps1", "cpx-nps1": "spx-nps1"}[profile]
		m.run(`rm -f /root/calls; touch /root/jobs; printf %s "$1" >/root/state; sed -i "s/$2/$3/" /root/play/rollout.yml`, s.state, profile, next)
		arguments := "-e dcm_drain_timeout=60 -e dcm_drain_interval=1 -e dcm_drain=" + s.engine
		if text, _, failed := m.played(arguments); failed != "0" {
			m.t.Fatalf("%s, %s:\n%s", s.engine, s.state, text)
		}
		before, after := " 8", " 64"
		if next == "spx-nps1" {
			before, after = after, before
		}
		calls := strings.Split(m.run("cat /root/calls"), "\n")
		for i, call := range calls {
			number := before
			if strings.Contains(call, "RESUME") || strings.Contains(call, "uncordon") {
				number = after
			}
			if i >= len(s.calls) || !strings.HasPrefix(call, s.calls[i]) || !strings.HasSuffix(call, number) {
				m.t.Errorf("%s, %s: call %d is %q, want one of %q, with%s partitions", s.engine, s.state, i, call, s.calls, number)
			}
		}
		if len(calls) != len(s.calls) {
			m.t.Errorf("%s, %s: calls %q, want %q", s.engine, s.state, calls, s.calls)
		}
		m.run("rm -f /root/calls")
		m.changes(arguments, "0")
		if r := m.try("cat /root/calls"); r.Code == 0 {
			m.t.Errorf("without a change: calls %s", r.Stdout)
		}
		profile = next
	}
}

// collected: the directory is a collection, and its role has documentation.
func (m machine) collected() {
	m.t.Helper()
	m.run("cd /root && ansible-galaxy collection build play --output-path built && ansible-galaxy collection install --offline built/deviceconfig-dcm-*.tar.gz")
	if text := m.run("ansible-doc --type role deviceconfig.dcm.dcm"); !strings.Contains(text, "dcm_drain_host") {
		m.t.Errorf("documentation of the role:\n%s", text)
	}
}

// absent: the role removes the package. A second run changes nothing.
func (m machine) absent() {
	m.t.Helper()
	m.run("mkdir -p /root/away && cp /root/play/hosts /root/away")
	m.put("/root/away/rollout.yml", "- hosts: gpu\n  roles:\n    - role: deviceconfig.dcm.dcm\n      vars:\n        dcm_state: absent\n")
	for _, want := range []string{"changed=1", "changed=0"} {
		text := m.run("cd /root/away && ANSIBLE_NOCOLOR=1 ansible-playbook -i hosts rollout.yml")
		if !strings.Contains(text, want) || !strings.Contains(text, "failed=0") {
			m.t.Errorf("want %s:\n%s", want, text)
		}
	}
	if r := m.try("[ -e /usr/bin/dcm ]"); r.Code == 0 {
		m.t.Error("dcm is still installed")
	}
	m.run("cat " + settings)
}
