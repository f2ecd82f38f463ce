package slurm

import (
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
