package e2e_test

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/e2e"
	"dcm/internal/testkit/testdeadline"
)

// slurmConf is the configuration of a cluster of one node. It uses no cgroups, since slurmd cannot create
// all of them in a container.
const slurmConf = `ClusterName=test
SlurmctldHost=gpu1(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
NodeName=gpu1 NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
`

// address is an additional loopback address. With only 127.0.0.1, getaddrinfo(3) does not return IPv4
// addresses for the flags that slurmctld uses.
const address = `[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip address add 127.0.1.1/8 dev lo

[Unit]
Before=slurmctld.service slurmd.service
`

// slurmSeed returns the files of a cluster of one node.
func slurmSeed() e2e.Seed {
	return e2e.Seed{
		"/etc/hostname":                       {Content: []byte("gpu1\n")},
		"/etc/hosts":                          {Content: []byte("127.0.0.1 localhost gpu1\n")},
		"/etc/slurm/slurm.conf":               {Content: []byte(slurmConf)},
		"/etc/slurm/cgroup.conf":              {Content: []byte("CgroupPlugin=disabled\n")},
		"/etc/systemd/system/address.service": {Content: []byte(address)},
		"/etc/systemd/system/multi-user.target.wants/address.service": {Link: "../address.service"},
	}
}

// TestSlurm follows dcm-slurm(7) with the real slurmctld and slurmd on a simulated node. Its root is large,
// so it is not part of make test.
func TestSlurm(t *testing.T) {
	if os.Getenv("DCM_SLURM") == "" {
		t.Skip("Slurm is tried by make test-slurm, which sets DCM_SLURM")
	}
	requireContainers(t)
	m := installWith(t, e2e.Slurm(), buildProduct(t), slurmSeed())
	m.t.Log(m.run("slurmctld -V"))
	m.configureSlurm()
	for _, s := range []struct {
		name string
		run  func(machine)
	}{
		{"commands of the manual", slurmWalk},
		{"change by the host administrator", slurmHostChange},
		{"slurmctld down during a change", slurmAway},
		{"failed change drains the node", slurmFailure},
		{"features after a boot", slurmReboot},
		{"jobs get partitions by GRES", slurmGres},
		{"jobs get cores of the GPU's socket", slurmCores},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.run(m.in(t)) }) {
			break // each row needs the state of the cluster after the one before
		}
	}
}

// configureSlurm uses the output of dcm as the manual describes.
func (m machine) configureSlurm() {
	m.t.Helper()
	m.put(settings, "profile = \"spx-nps1\"\n")
	said := m.run("dcm slurm-conf --features")
	helpers, conf, _ := strings.Cut(said, "\n\n")
	m.put("/etc/slurm/helpers.conf", helpers+"\n")
	m.addSlurmConf(conf)
}

// addSlurmConf adds the printed lines to slurm.conf, and the settings for the node to the node's line. It
// omits TaskPlugin, since this cluster uses no cgroups.
func (m machine) addSlurmConf(conf string) {
	m.t.Helper()
	for line := range strings.Lines(conf) {
		if features, ours := strings.CutPrefix(strings.TrimSpace(line), "#NodeName=gpu1 "); ours {
			m.run(`sed -i "/^NodeName=gpu1 /s/$/ $1/" /etc/slurm/slurm.conf`, features)
			continue
		}
		if strings.HasPrefix(line, "TaskPlugin=") {
			continue
		}
		m.run(`printf %s "$1" >>/etc/slurm/slurm.conf`, line)
	}
}

// walk returns the commands in a section of a manual page, with their here-documents.
func walk(t *testing.T, page, section string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../packaging/man/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n.SS "+section+"\n")
	after = regexp.MustCompile(`(?m)^\.S[SH] `).Split(after, 2)[0]
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^\$ (.*<<'EOF'\n(?:.*\n)*?EOF|.*)$`).FindAllStringSubmatch(after, -1) {
		out = append(out, strings.ReplaceAll(m[1], `\-`, "-"))
	}
	return out
}

// slurmWalk runs the commands of the manual page unchanged.
func slurmWalk(m machine) {
	all := walk(m.t, "dcm-slurm.7", "Walkthrough")
	if len(all) != 9 {
		m.t.Fatalf("commands of the manual: want 9, got %d: %q", len(all), all)
	}
	said := make(map[string]string)
	for _, command := range all {
		said[command] = m.run(`sudo() { "$@"; }; ` + command)
		m.t.Logf("$ %s\n%s", command, said[command])
	}
	for command, text := range said {
		switch {
		case strings.HasPrefix(command, "srun --constraint=cpx_nps4") && !strings.Contains(text, "cpx-nps4"),
			strings.HasPrefix(command, "srun --constraint=spx_nps1") && !strings.Contains(text, "spx-nps1"),
			strings.HasPrefix(command, "scontrol show node") && !strings.HasSuffix(text, "ActiveFeatures=spx_nps1"):
			m.t.Errorf("output of %s: %s", command, text)
		}
	}
	m.has(spx)
	if got := m.run("cat " + settings); got != `profile = "spx-nps1"` {
		m.t.Errorf("configuration after a job: want it unchanged, got %s", got)
	}
}

// node returns slurmctld's record of the node.
func (m machine) node(field string) string {
	m.t.Helper()
	text := m.run("scontrol --oneliner show node gpu1")
	_, after, _ := strings.Cut(text, " "+field+"=")
	if field == "Reason" {
		return after
	}
	return strings.Fields(after + " -")[0]
}

// slurmHostChange: after a change by the administrator slurmctld has the new features, and slurmd runs on.
func slurmHostChange(m machine) {
	m.run("dcm use cpx-nps1")
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.run("systemctl is-active dcm-slurm slurmd")
	if got := m.node("ActiveFeatures"); got != "cpx_nps1" {
		m.t.Errorf("active features in slurmctld: got %s", got)
	}
	before := m.lastRun().Started
	m.run("srun --constraint=cpx_nps1 true")
	if now := m.lastRun().Started; now != before {
		m.t.Error("job without a needed change: want no run")
	}
	if got := m.node("State"); strings.Contains(got, "DRAIN") || strings.Contains(got, "INVAL") {
		m.t.Errorf("the node is %s: %s", got, m.node("Reason"))
	}
	m.run("dcm use spx-nps1")
}

// slurmAway: the GPUs are changed while slurmctld is stopped. slurmctld gets the features when it is back.
func slurmAway(m machine) {
	m.run("systemctl stop slurmctld")
	ctx, cancel := testdeadline.Context(m.t.Context(), 3*waitTimeout) // dcm waits a long time for a client
	defer cancel()
	if r, err := m.Run(ctx, "dcm", "use", "cpx-nps1"); err != nil || r.Code != 1 || !strings.Contains(r.Stderr, "not back: dcm-slurm.service") {
		m.t.Errorf("exit status %d, %v\n%s%s", r.Code, err, r.Stdout, r.Stderr)
	}
	m.has(partition.Mode{Compute: partition.CPX, Memory: "NPS1"})
	m.run("systemctl start slurmctld; timeout 60 journalctl --since=now --follow --unit=dcm-slurm | grep --max-count=1 'set the active features'")
	if got := m.node("ActiveFeatures"); got != "cpx_nps1" {
		m.t.Errorf("active features in slurmctld: got %s", got)
	}
	m.run("srun --constraint=cpx_nps1 true")
	m.run("dcm status")
	m.run("dcm use spx-nps1")
}

// slurmFailure: after a failure the node is drained with dcm's reason and has its former features. After
// it is resumed, a job can change it again.
func slurmFailure(m machine) {
	m.run("dcm-sim fault --op memory --errno EIO --times always")
	job := m.run("sbatch --parsable --requeue --constraint=cpx_nps4 --output=/root/job.out --wrap 'dcm verify cpx-nps4'")
	m.run("timeout 300 journalctl --boot --follow --lines=all --identifier=dcm | grep --max-count=1 'drained gpu1'")
	state, reason := m.node("State"), m.node("Reason")
	m.t.Logf("%s: %s", state, reason)
	if !strings.Contains(state, "DRAIN") || !strings.HasPrefix(reason, "dcm: ") || !hasAll(reason, "cpx_nps4", "input/output error") {
		m.t.Errorf("state of the node: %s, reason %s", state, reason)
	}
	m.applied("spx-nps1")
	m.has(spx)
	if got, state := m.node("ActiveFeatures"), m.node("State"); got != "spx_nps1" || !strings.Contains(state, "DRAIN") {
		m.t.Errorf("slurmctld takes %s for active, and the node is %s", got, state)
	}
	m.run("dcm-sim fault --clear")
	commands := walk(m.t, "dcm-slurm.7", "When a change fails")
	if len(commands) != 3 {
		m.t.Fatalf("commands of the manual: %q", commands)
	}
	for _, command := range commands {
		said := m.run(`sudo() { "$@"; }; ` + command)
		m.t.Logf("$ %s\n%s", command, said)
		if !strings.Contains(command, "RESUME") && !strings.Contains(said, "dcm: cannot change t") {
			m.t.Errorf("%s: want dcm's reason, got %s", command, said)
		}
	}
	// A requeued job would wait for two more minutes.
	m.run(`scontrol update JobId="$1" StartTime=now; srun --dependency=afterany:"$1" true`, job)
	if got := m.run("cat /root/job.out"); !strings.Contains(got, "cpx-nps4") {
		m.t.Errorf("output of the job: want cpx-nps4, got %s", got)
	}
	m.has(cpx)
}

// slurmReboot: the features that a job requested end with the boot, and slurmctld has the new ones.
func slurmReboot(m machine) {
	m.reboot()
	m.run("srun --constraint=spx_nps1 dcm verify spx-nps1")
	if got := m.node("ActiveFeatures"); got != "spx_nps1" {
		m.t.Errorf("active features in slurmctld: got %s", got)
	}
	if run := m.lastRun(); run.Profile != "spx-nps1" {
		m.t.Errorf("profile of the last run: got %s", run.Profile)
	}
	m.has(spx)
	maps.DeleteFunc(m.units("slurmd.service", "slurmctld.service"), func(unit, state string) bool {
		if !strings.HasPrefix(state, "active") {
			m.t.Errorf("%s is %s", unit, state)
		}
		return true
	})
}

// slurmGres: slurmctld and slurmd accept the printed lines, and a job gets only the variable of AMD GPUs.
// slurmd requires device nodes, which simulated GPUs do not have, so the test mounts /dev/null over them.
func slurmGres(m machine) {
	m.run("rm /etc/slurm/helpers.conf; sed -i '/^NodeFeaturesPlugins=/d; /^ResumeTimeout=/d; s/ Features=[^ ]*//' /etc/slurm/slurm.conf")
	gres, rest, _ := strings.Cut(m.run("dcm slurm-conf --gres"), "\n\n")
	m.put("/etc/slurm/gres.conf", gres+"\n")
	conf, _, _ := strings.Cut(rest, "\n\n") // without cgroup.conf, since this cluster uses no cgroups
	m.addSlurmConf(conf + "\n")
	m.run("systemctl disable --now dcm-slurm; for node in /dev/dri/renderD*; do mount --bind /dev/null $node; done; systemctl restart slurmctld slurmd")
	if got := m.run("srun --gres=gpu:spx_nps1:2 env | grep VISIBLE_DEVICES; true"); got != "ROCR_VISIBLE_DEVICES=0,1" {
		m.t.Errorf("environment of the job: got %s", got)
	}
}
