package slurm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFeatureLines(t *testing.T) {
	const want = `# helpers.conf, on this node and on the host of slurmctld
NodeName=gpu1 Feature=cpx_nps4,spx_nps1 Helper=/usr/libexec/dcm/slurm-feature Flags=rebootless
MutuallyExclusive=cpx_nps4,spx_nps1
ExecTime=1200
BootTime=1260

# slurm.conf, on all hosts; add the settings of the commented line to the node's existing line
NodeFeaturesPlugins=node_features/helpers
ResumeTimeout=1260
#NodeName=gpu1 Features=cpx_nps4,spx_nps1
`
	if d := cmp.Diff(want, FeatureLines("gpu1", []string{"cpx_nps4", "spx_nps1"})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestGresLines(t *testing.T) {
	var list []Device
	for i := range 4 {
		list = append(list, Device{"cpx", fmt.Sprintf("/dev/dri/renderD%d", 128+i)})
	}
	list = append(list, Device{"cpx", "/dev/dri/renderD140"}, Device{"spx", "/dev/dri/renderD141"}, Device{"cpx", "/dev/odd"})
	got := strings.Split(GresLines("gpu1", "A note", list), "\n\n")
	want := []string{`# gres.conf, on this node. A note
NodeName=gpu1 AutoDetect=off
NodeName=gpu1 Name=gpu Type=cpx File=/dev/dri/renderD[128-131] Flags=amd_gpu_env
NodeName=gpu1 Name=gpu Type=cpx File=/dev/dri/renderD140 Flags=amd_gpu_env
NodeName=gpu1 Name=gpu Type=spx File=/dev/dri/renderD141 Flags=amd_gpu_env
NodeName=gpu1 Name=gpu Type=cpx File=/dev/odd Flags=amd_gpu_env`, `# slurm.conf, on all hosts; add the settings of the commented line to the node's existing line
GresTypes=gpu
#AccountingStorageTRES=gres/gpu,gres/gpu:cpx,gres/gpu:spx   # with slurmdbd only
#NodeName=gpu1 Gres=gpu:cpx:6,gpu:spx:1`, `# cgroup.conf, on this node: a job can open only its own partitions
ConstrainDevices=yes
`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
