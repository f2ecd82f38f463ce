package slurm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Values of [Device.Flags]. With the flag slurmd sets only the variable of that vendor. Without it slurmd
// sets the variables of all vendors. ROCm applies both ROCR_VISIBLE_DEVICES and, to the remaining
// devices, CUDA_VISIBLE_DEVICES, so the second job on a node would see no GPU. slurmd needs the same flags
// in all lines of a node.
const (
	AMDFlags    = "amd_gpu_env"
	NVIDIAFlags = "nvidia_gpu_env"
)

// Device is a partition as a generic resource.
type Device struct {
	Type  string
	Files []string // device nodes; a MIG instance has several
	Flags string   // [AMDFlags] or [NVIDIAFlags]
	Cores string   // logical indexes of near cores, "0-95"; "" for all
	Part  string   // dcm's name of the partition
}

// Gres is the generic resources of a node.
type Gres struct {
	Node    string
	Note    string // one line for the comment above them
	Devices []Device
	NVML    bool // slurmd finds NVIDIA's GPUs with NVML
	plain   bool // the types are those of [Gres.Plain]
}

// gresMark begins the first line of a file with [Gres.Conf].
const gresMark = "# gres.conf, on this node. "

// IsGres reports whether a file has only lines that [Gres.Conf] printed before.
func IsGres(text string) bool { return text == "" || strings.HasPrefix(text, gresMark) }

// Conf returns gres.conf.
func (g Gres) Conf() string {
	var b strings.Builder
	fmt.Fprintln(&b, gresMark+g.Note)
	for _, line := range g.lines(fmt.Sprintf("NodeName=%s ", g.Node)) {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// migCondition is the comment above MIG instances by device nodes. gres.conf has no key for a UUID, so
// CUDA_VISIBLE_DEVICES is a number. Without ConstrainDevices it counts the GPUs of the host.
const migCondition = "# MIG instances: needs ConstrainDevices=yes, and jobs with one instance a task"

// mixedCondition is the comment above the lines of a node with GPUs of two vendors. With ConstrainDevices
// both variables count the partitions of the job.
const mixedCondition = "# GPUs of two vendors: jobs get the variables of both; needs ConstrainDevices=yes"

// interleavedCondition is the comment above types that alternate. slurmd numbers the devices by the order
// of their types in Gres=, not by that of the lines.
const interleavedCondition = "# types that alternate: the numbers that jobs get are right only with ConstrainDevices=yes and task/cgroup"

// interleaved reports whether devices of one type have devices of another type between them.
func (g Gres) interleaved() bool {
	var sequence []string
	for _, d := range g.Devices {
		sequence = append(sequence, d.Type)
	}
	types, _ := g.types()
	return len(slices.Compact(sequence)) > len(types)
}

// otherThanPlain matches the characters that a plain type has not.
var otherThanPlain = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// Plain returns the resources with types of letters, digits and _ only: "h100_1g_10gb" for "h100_1g.10gb". Some
// programs do not count the others. slurmd finds no such type with NVML.
func (g Gres) Plain() Gres {
	g.Devices = slices.Clone(g.Devices)
	for i := range g.Devices {
		g.Devices[i].Type = otherThanPlain.ReplaceAllString(g.Devices[i].Type, "_")
	}
	g.plain = true
	return g
}

// flags returns the flags of all devices.
func (g Gres) flags() string {
	var all []string
	for _, d := range g.Devices {
		all = append(all, d.Flags)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// nvmlCondition is the comment above AutoDetect=nvml.
const nvmlCondition = "# MIG instances: needs a slurmd with gpu_nvml.so; AutoDetect=nvidia finds none"

// lines returns the lines of gres.conf, each with a prefix that names the node.
func (g Gres) lines(prefix string) []string {
	detect := "off"
	if g.NVML {
		detect = "nvml"
	}
	out := []string{prefix + "AutoDetect=" + detect}
	if g.NVML {
		out = []string{nvmlCondition, out[0]}
	}
	warned, flags := false, g.flags()
	if g.interleaved() {
		out = append([]string{interleavedCondition}, out...)
	}
	if strings.Contains(flags, ",") {
		out = append([]string{mixedCondition}, out...)
	}
	for rest := g.Devices; len(rest) > 0; {
		d, n := rest[0], consecutive(rest)
		line := fmt.Sprintf("%sName=gpu Type=%s %s Flags=%s", prefix, d.Type, files(rest[:n]), flags)
		if d.Cores != "" {
			line += " Cores=" + d.Cores
		}
		rest = rest[n:]
		if g.NVML && d.Flags == NVIDIAFlags {
			continue // a line with files does not match what slurmd finds
		}
		if len(d.Files) > 1 && !warned {
			warned = true
			out = append(out, migCondition)
		}
		out = append(out, line)
	}
	return out
}

// Counts returns the value of Gres= in slurm.conf: "gpu:cpx_nps4:64".
func (g Gres) Counts() string {
	types, count := g.types()
	for i, t := range types {
		types[i] = fmt.Sprintf("gpu:%s:%d", t, count[t])
	}
	return strings.Join(types, ",")
}

// types returns the types in the order of the devices, and the number of devices of each.
func (g Gres) types() (types []string, count map[string]int) {
	count = make(map[string]int)
	for _, d := range g.Devices {
		if count[d.Type]++; count[d.Type] == 1 {
			types = append(types, d.Type)
		}
	}
	return types, count
}

// HasInstances reports whether a device is a MIG instance.
func (g Gres) HasInstances() bool {
	return slices.ContainsFunc(g.Devices, func(d Device) bool { return len(d.Files) > 1 })
}

// taskPlugin is the line of slurm.conf without which ConstrainDevices has no effect (cgroup.conf(5)).
const taskPlugin = "TaskPlugin=task/cgroup,task/affinity"

// Lines returns the lines of gres.conf, slurm.conf and cgroup.conf that let a job request a number of
// the node's partitions. With MIG instances, the other form of gres.conf follows as a comment.
func (g Gres) Lines() string {
	var b strings.Builder
	b.WriteString(g.Conf())
	if g.HasInstances() && !g.NVML && !g.plain {
		other := g
		other.NVML = true
		fmt.Fprintln(&b, "\n# gres.conf instead, as dcm slurm conf --gres --nvml prints it")
		for _, line := range other.lines(fmt.Sprintf("NodeName=%s ", g.Node)) {
			fmt.Fprintln(&b, "#"+strings.TrimPrefix(line, "#"))
		}
	}
	types, _ := g.types()
	fmt.Fprintln(&b, "\n# slurm.conf, on all hosts; add the settings of the commented line to the node's existing line")
	fmt.Fprintln(&b, "GresTypes=gpu")
	// slurmctld does not start with this line unless it has a slurmdbd.
	fmt.Fprintf(&b, "#AccountingStorageTRES=%s   # with slurmdbd only\n", strings.Join(append([]string{"gres/gpu"}, prefixed("gres/gpu:", types)...), ","))
	fmt.Fprintf(&b, "#NodeName=%s Gres=%s\n", g.Node, g.Counts())
	fmt.Fprintln(&b, taskPlugin)
	fmt.Fprintln(&b, "\n# cgroup.conf, on this node: with task/cgroup a job can open only its own partitions")
	fmt.Fprintln(&b, "ConstrainDevices=yes")
	return b.String()
}

func prefixed(prefix string, list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = prefix + s
	}
	return out
}

// Slinky returns values for the Helm chart of Slinky's slurm-operator. Its slurmd are in pods with names
// of their own, so the lines of gres.conf have no node.
func (g Gres) Slinky() string {
	var b strings.Builder
	fmt.Fprintln(&b, "# values.yaml of Slinky's chart \"slurm\": one gres.conf for all nodes with these GPUs and this profile")
	fmt.Fprintln(&b, "configFiles:\n  gres.conf: |")
	for _, line := range g.lines("") {
		fmt.Fprintln(&b, "    "+line)
	}
	fmt.Fprintln(&b, "---")
	fmt.Fprintln(&b, "# values.yaml of Slinky's chart \"slurm\": replace gpu by the name of your NodeSet")
	fmt.Fprintln(&b, "nodesets:\n  gpu:\n    extraConfMap:")
	fmt.Fprintf(&b, "      Gres: [%s]\n", quoted(strings.Split(g.Counts(), ",")))
	return b.String()
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}

// TypeOf returns the type of a GPU of NVIDIA from its name in NVML, or of a MIG instance with a profile:
// "h100_80gb_hbm3", "a100_3g.40gb". With AutoDetect=nvml, slurmd accepts a type that is a substring of
// its own name for the device. For an instance that name is the GPU's up to the first "-", and the
// profile.
func TypeOf(name, profile string) string {
	t := strings.ToLower(strings.ReplaceAll(name, " ", "_"))
	if profile != "" {
		t, _, _ = strings.Cut(t, "-")
		t += "_" + strings.ToLower(profile)
	}
	return strings.TrimPrefix(t, "nvidia_")
}

// consecutive returns how many devices, from the first one on, have one file each with consecutive
// numbers, and are otherwise equal.
func consecutive(d []Device) int {
	stem, first := splitNumber(d[0].Files[0])
	alike := func(o Device) bool {
		return o.Type == d[0].Type && o.Flags == d[0].Flags && o.Cores == d[0].Cores && len(o.Files) == 1
	}
	n := 1
	for n < len(d) && len(d[0].Files) == 1 && first >= 0 && alike(d[n]) && d[n].Files[0] == fmt.Sprintf("%s%d", stem, first+n) {
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

// files returns the key of gres.conf for consecutive devices.
func files(d []Device) string {
	switch {
	case len(d[0].Files) > 1:
		return "MultipleFiles=" + strings.Join(d[0].Files, ",")
	case len(d) == 1:
		return "File=" + d[0].Files[0]
	}
	stem, first := splitNumber(d[0].Files[0])
	return fmt.Sprintf("File=%s[%d-%d]", stem, first, first+len(d)-1)
}
