package vm_test

import (
	"fmt"
	"slices"
	"strings"
)

// slurmConf is a cluster of one node. slurmctld and slurmd need an address that is not
// 127.0.0.1: getaddrinfo(3) returns no address of IPv4 without one.
const slurmConf = `ClusterName=test
SlurmctldHost=gpu-node(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
NodeName=gpu-node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN%s
`

const forSlurm = `[[reservation]]
name = "slurm"
partitions = 8
`

// slurmJobs: with the lines of dcm slurm-conf, a job can open the partitions that Slurm gave it, none of
// another job, and no exclusively reserved one.
func slurmJobs(m machine) {
	m.run(`printf '%s' "$1" >>/etc/dcm/dcm.toml`, forSlurm)
	m.guardWorks("cpx-nps4")
	m.startSlurm()
	held := m.run("readlink -f /dev/dcm/holder/render0")
	slurm := strings.Fields(m.run("readlink -f /dev/dcm/slurm/render*"))
	others := len(strings.Fields(m.run("ls /dev/dri/renderD*"))) - len(slurm) - 1
	const opened = `for node in /dev/dri/renderD*; do (exec 3<>$node) 2>/dev/null && echo $node; done`
	const srun = "srun --ntasks=1 --gres=gpu:cpx_nps4:2 sh -c "
	m.run(`systemd-run --quiet --unit=job ` + srun + `'{ ` + opened + `; } >/root/job; touch /root/job.done; exec sleep infinity'`)
	m.await("/root/job.done", "")
	given := make(map[string]bool)
	for i, text := range []string{m.run("cat /root/job"), m.run(srun + "'" + opened + "'")} {
		nodes := strings.Fields(text)
		if slices.Contains(nodes, held) {
			m.t.Errorf("job %d opens %s, which is reserved exclusively", i, held)
		}
		if len(nodes) != 2+others {
			m.t.Errorf("job %d opens %d nodes, want its 2 and the %d that Slurm does not have: %s", i, len(nodes), others, nodes)
		}
		for _, node := range nodes {
			if !slices.Contains(slurm, node) {
				continue
			}
			if given[node] {
				m.t.Errorf("two jobs open %s", node)
			}
			given[node] = true
		}
	}
	if len(given) != 4 {
		m.t.Errorf("two jobs open %d partitions of Slurm's, want 4", len(given))
	}
	m.guarded()
}

// startSlurm starts Slurm with the configuration that dcm prints.
func (m machine) startSlurm() {
	m.t.Helper()
	printed := strings.SplitN(m.run("dcm slurm-conf --gres"), "\n\n", 3)
	if len(printed) != 3 {
		m.t.Fatalf("dcm slurm-conf printed %q, want lines for three files", printed)
	}
	var node, conf strings.Builder
	for line := range strings.Lines(printed[1] + "\n") {
		if rest, ok := strings.CutPrefix(line, "#NodeName=gpu-node"); ok {
			node.WriteString(strings.TrimRight(rest, "\n"))
			continue
		}
		conf.WriteString(line)
	}
	m.put("/etc/slurm/gres.conf", printed[0]+"\n")
	m.put("/etc/slurm/slurm.conf", fmt.Sprintf(slurmConf, node.String())+conf.String())
	m.put("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v2\n"+printed[2]+"\n")
	m.put("/etc/hosts", "127.0.0.1 localhost gpu-node\n")
	m.run("ip address add 127.0.1.1/8 dev lo; systemctl start munge slurmctld slurmd")
}
