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

// gresFlags makes slurmd set only ROCR_VISIBLE_DEVICES. Without the flag slurmd sets the variables of
// all vendors. ROCm applies both ROCR_VISIBLE_DEVICES and, to the remaining devices,
// CUDA_VISIBLE_DEVICES, so the second job on a node would see no GPU.
const gresFlags = "amd_gpu_env"

// Device is a partition as a generic resource: its type and its device node.
type Device struct{ Type, File string }

// GresLines returns the lines of gres.conf, slurm.conf and cgroup.conf that let a job request
// a number of the node's partitions. note is one line for the comment above them.
func GresLines(node, note string, devices []Device) string {
	var b strings.Builder
	fmt.Fprintln(&b, "# gres.conf, on this node. "+note)
	fmt.Fprintf(&b, "NodeName=%s AutoDetect=off\n", node)
	count := make(map[string]int)
	var types []string
	for rest := devices; len(rest) > 0; {
		n := consecutive(rest)
		fmt.Fprintf(&b, "NodeName=%s Name=gpu Type=%s File=%s Flags=%s\n", node, rest[0].Type, files(rest[:n]), gresFlags)
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
	fmt.Fprintln(&b, "\n# slurm.conf, on all hosts; add the settings of the commented line to the node's existing line")
	fmt.Fprintln(&b, "GresTypes=gpu")
	// slurmctld does not start with this line unless it has a slurmdbd.
	fmt.Fprintf(&b, "#AccountingStorageTRES=%s   # with slurmdbd only\n", strings.Join(tracked, ","))
	fmt.Fprintf(&b, "#NodeName=%s Gres=%s\n", node, strings.Join(gres, ","))
	fmt.Fprintln(&b, "\n# cgroup.conf, on this node: a job can open only its own partitions")
	fmt.Fprintln(&b, "ConstrainDevices=yes")
	return b.String()
}

// consecutive returns how many devices, from the first one on, have the same type and
// consecutive numbers.
func consecutive(d []Device) int {
	stem, first := splitNumber(d[0].File)
	n := 1
	for n < len(d) && first >= 0 && d[n].Type == d[0].Type && d[n].File == fmt.Sprintf("%s%d", stem, first+n) {
		n++
	}
	return n
}

// splitNumber splits a name into its stem and the number at its end, -1 for none.
func splitNumber(file string) (stem string, n int) {
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
	stem, first := splitNumber(d[0].File)
	return fmt.Sprintf("%s[%d-%d]", stem, first, first+len(d)-1)
}
