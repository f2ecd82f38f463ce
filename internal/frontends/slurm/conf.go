package slurm

import (
	"fmt"
	"strings"
	"time"
)

// Helper is the path of the helper program for helpers.conf, which permits no arguments.
const Helper = "/usr/libexec/dcm/slurm-feature"

// slurmd kills the helper after ExecTimeout, which is enough for a run of dcm-apply.service (ten
// minutes) and for the stop and start of the clients. The helper itself ends after ChangeTimeout, so
// that it can still report the reason.
const (
	ExecTimeout   = 20 * time.Minute
	ChangeTimeout = ExecTimeout - time.Minute
)

// FeatureLines returns the lines of helpers.conf and slurm.conf that let a job choose among
// the features of a node.
func FeatureLines(node string, features []string) string {
	all := strings.Join(features, ",")
	seconds := int(ExecTimeout / time.Second)
	var b strings.Builder
	fmt.Fprintln(&b, "# helpers.conf, on this node and on the host of slurmctld")
	fmt.Fprintf(&b, "NodeName=%s Feature=%s Helper=%s Flags=rebootless\n", node, all, Helper)
	fmt.Fprintf(&b, "MutuallyExclusive=%s\n", all)
	fmt.Fprintf(&b, "ExecTime=%d\n", seconds)
	fmt.Fprintf(&b, "BootTime=%d\n", seconds+60)
	fmt.Fprintln(&b, "\n# slurm.conf, on all hosts; add the settings of the commented line to the node's existing line")
	fmt.Fprintln(&b, "NodeFeaturesPlugins=node_features/helpers")
	fmt.Fprintf(&b, "ResumeTimeout=%d\n", seconds+60)
	fmt.Fprintf(&b, "#NodeName=%s Features=%s\n", node, all)
	return b.String()
}
