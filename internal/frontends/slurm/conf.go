package slurm

import (
	"fmt"
	"strings"
	"time"
)

// Helper is the program that helpers.conf names: it takes no arguments of its own there.
const Helper = "/usr/libexec/dcm/slurm-feature"

// How long a change may take. A run of dcm-apply.service has ten minutes, and its clients
// are stopped before and started behind it; the helper gives up a minute before slurmd
// kills it, so that it can still say why.
const (
	ExecTime = 20 * time.Minute
	Patience = ExecTime - time.Minute
)

// FeatureLines are the lines of helpers.conf and slurm.conf by which a job may choose
// among the features of a node.
func FeatureLines(node string, features []string) string {
	all := strings.Join(features, ",")
	seconds := int(ExecTime / time.Second)
	var b strings.Builder
	fmt.Fprintln(&b, "# helpers.conf, on this node and beside slurmctld")
	fmt.Fprintf(&b, "NodeName=%s Feature=%s Helper=%s Flags=rebootless\n", node, all, Helper)
	fmt.Fprintf(&b, "MutuallyExclusive=%s\n", all)
	fmt.Fprintf(&b, "ExecTime=%d\n", seconds)
	fmt.Fprintf(&b, "BootTime=%d\n", seconds+60)
	fmt.Fprintln(&b, "\n# slurm.conf, everywhere; what it says of the node already stays in its line")
	fmt.Fprintln(&b, "NodeFeaturesPlugins=node_features/helpers")
	fmt.Fprintf(&b, "ResumeTimeout=%d\n", seconds+60)
	fmt.Fprintf(&b, "#NodeName=%s Features=%s\n", node, all)
	return b.String()
}

// environment is the flag by which slurmd sets ROCR_VISIBLE_DEVICES alone. Without a flag
// it sets the variables of all vendors, and ROCm applies CUDA_VISIBLE_DEVICES to what
// ROCR_VISIBLE_DEVICES has left: the second job on a node sees no GPU.
const environment = "amd_gpu_env"

// Device is what a job is given: a partition of a kind, opened by its device node.
type Device struct{ Type, File string }

// GresLines are the lines of gres.conf and slurm.conf by which a job may have so many of
// a node's partitions. note, one line, is said above them.
func GresLines(node, note string, devices []Device) string {
	var b strings.Builder
	fmt.Fprintln(&b, "# gres.conf, on this node. "+note)
	fmt.Fprintf(&b, "NodeName=%s AutoDetect=off\n", node)
	count := make(map[string]int)
	var types []string
	for rest := devices; len(rest) > 0; {
		n := run(rest)
		fmt.Fprintf(&b, "NodeName=%s Name=gpu Type=%s File=%s Flags=%s\n", node, rest[0].Type, files(rest[:n]), environment)
		if count[rest[0].Type] == 0 {
			types = append(types, rest[0].Type)
		}
		count[rest[0].Type] += n
		rest = rest[n:]
	}
	gres, tracked := make([]string, len(types)), []string{"gres/gpu"}
	for i, t := range types {
		gres[i] = fmt.Sprintf("gpu:%s:%d", t, count[t])
		tracked = append(tracked, "gres/gpu:"+t)
	}
	fmt.Fprintln(&b, "\n# slurm.conf, everywhere; what it says of the node already stays in its line")
	fmt.Fprintln(&b, "GresTypes=gpu")
	// Without slurmdbd slurmctld does not start with it.
	fmt.Fprintf(&b, "#AccountingStorageTRES=%s   # with slurmdbd only\n", strings.Join(tracked, ","))
	fmt.Fprintf(&b, "#NodeName=%s Gres=%s\n", node, strings.Join(gres, ","))
	fmt.Fprintln(&b, "\n# cgroup.conf, on this node: a job opens no other partition than its own")
	fmt.Fprintln(&b, "ConstrainDevices=yes")
	return b.String()
}

// run is how many devices, from the first one on, are of one type and numbered one after
// the other.
func run(d []Device) int {
	stem, first := numbered(d[0].File)
	n := 1
	for n < len(d) && first >= 0 && d[n].Type == d[0].Type && d[n].File == fmt.Sprintf("%s%d", stem, first+n) {
		n++
	}
	return n
}

// numbered parts a name in its stem and the number at its end, -1 for none.
func numbered(file string) (stem string, n int) {
	stem = strings.TrimRight(file, "0123456789")
	if _, err := fmt.Sscanf(file[len(stem):], "%d", &n); err != nil {
		return file, -1
	}
	return stem, n
}

func files(d []Device) string {
	if len(d) == 1 {
		return d[0].File
	}
	stem, first := numbered(d[0].File)
	return fmt.Sprintf("%s[%d-%d]", stem, first, first+len(d)-1)
}
