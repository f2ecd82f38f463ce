package selftest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/statefile"
)

// Views are the views of all sources on the GPUs that dcm manages.
type Views struct {
	GPUs   []GPU
	Own    View   // by what modes are read back from
	Others []View // by who has no part in that
	Nodes  []File // that the partitions are opened by
	Files  []File // that modes are written to
	Hidden error  // what could not be looked at
	NUMA   []int  // the online NUMA nodes of the host; nil if unknown

	Open map[partition.Vendor]string // a node whose holder is in the way of a change
}

// ShapeText is how a GPU is divided, in the words of an account.
func ShapeText(s partition.Shape) string { return gather.Shape(s).String() }

// ReadViews reads the GPUs from every available source.
func ReadViews(ctx context.Context, h *host.Host, cfg *config.Config) (Views, error) {
	node := host.OpenNode(h, cfg)
	devices, err := node.Devices(ctx)
	if err != nil && len(devices) == 0 {
		return Views{}, err
	}
	devices = slices.DeleteFunc(devices, func(d gpu.Device) bool { return d.SkipReason != "" })
	v := Views{Own: View{By: "what they are read back from", Source: Modes, Modes: make(map[string]string)}}
	v.Hidden = errors.Join(err, node.ReadDetails(ctx, devices))
	tree := View{By: "what the driver shows of each partition", Source: Partitions, Parts: make(map[string]int)}
	v.Open = make(map[partition.Vendor]string)
	for _, d := range devices {
		v.GPUs = append(v.GPUs, seen(d))
		v.Own.Modes[string(d.Address)] = ShapeText(d.Shape())
		tree.Parts[string(d.Address)] = len(d.Parts)
		v.nodes(h, d)
		if v.Open[d.Vendor] == "" && len(d.ExclusiveNodes) > 0 {
			v.Open[d.Vendor] = h.Path(d.ExclusiveNodes[0])
		}
	}
	v.Others = []View{tree}
	for _, t := range node.CrossChecks(ctx, devices) {
		v.Others = append(v.Others, view(t))
	}
	v.NUMA = onlineNodes(h)
	for _, path := range node.Watch().ModeFiles() {
		v.Files = append(v.Files, file(path, path))
	}
	return v, nil
}

func seen(d gpu.Device) GPU {
	g := GPU{GPU: d.GPU, Model: d.Model, NUMA: d.NUMA, Bytes: d.Bytes}
	for _, p := range d.Parts {
		g.Parts = append(g.Parts, Part{Minor: p.Minor, Profile: p.Profile, ID: p.ID, XCC: p.XCC, ComputeUnits: p.CUs, Memory: p.Bytes})
	}
	return g
}

// nodes adds those by which the GPU's partitions are opened.
func (v *Views) nodes(h *host.Host, d gpu.Device) {
	all := slices.Clone(d.ExclusiveNodes)
	for _, p := range d.Parts {
		all = append(append(all, p.RenderNode()), p.CompanionNodes...)
	}
	for _, node := range all {
		if !slices.ContainsFunc(v.Nodes, func(f File) bool { return f.Path == node }) {
			v.Nodes = append(v.Nodes, file(node, h.Path(node)))
		}
	}
}

// onlineNodes returns the online NUMA nodes, nil if they are unknown.
func onlineNodes(h *host.Host) []int {
	text, _ := os.ReadFile(h.Path("sys/devices/system/node/online"))
	var out []int
	for list := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, _ := strings.Cut(list, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil
		}
		to := from
		if last != "" {
			if to, err = strconv.Atoi(last); err != nil || to > maxNUMANodes {
				return nil
			}
		}
		for node := from; node <= to; node++ {
			out = append(out, node)
		}
	}
	return out
}

// maxNUMANodes is the largest number of NUMA nodes of a kernel (CONFIG_NODES_SHIFT).
const maxNUMANodes = 1 << 10

func file(name, path string) File {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{Path: name, Err: fmt.Errorf("%s is not there", name)}
	}
	if err != nil {
		return File{Path: name, Err: err}
	}
	return File{Path: name, Mode: info.Mode()}
}

func view(t gpu.CrossCheck) View {
	v := View{By: t.Source, Source: Library, GPUs: []string{}}
	for _, address := range t.GPUs {
		v.GPUs = append(v.GPUs, string(address))
	}
	if t.Err != nil {
		v.Problem = strings.TrimPrefix(t.Err.Error(), t.Source+": ")
	}
	for _, s := range t.Observations {
		if words := ShapeText(s.Shape); words != "" {
			if v.Modes == nil {
				v.Modes = make(map[string]string)
			}
			v.Modes[string(s.GPU)] = words
		}
		if s.Parts >= 0 {
			if v.Parts == nil {
				v.Parts = make(map[string]int)
			}
			v.Parts[string(s.GPU)] = s.Parts
		}
	}
	return v
}

// Wanted is how GPUs are to be seen that have these shapes; those that none is wanted of
// are to be as they are.
func Wanted(gpus []GPU, want map[partition.Address]partition.Shape) View {
	v := View{Modes: make(map[string]string), Parts: make(map[string]int)}
	for _, one := range gpus {
		g := one.GPU
		if s, ok := want[g.Address]; ok {
			g.Compute, g.Memory, g.MIG = s.Compute, s.Memory, s.MIG
		}
		v.Modes[string(g.Address)] = ShapeText(g.Shape())
		v.Parts[string(g.Address)] = g.Partitions()
	}
	return v
}

// recordFile is the state that the last self-test left the GPUs in.
func recordFile(h *host.Host) statefile.File[Record] {
	return statefile.File[Record]{Path: h.Path("var/lib/dcm/selftest.json"), Version: Version,
		Field: func(r *Record) *int { return &r.Version }}
}

// ReadRecord returns what the last self-test has left, nil if there was none.
func ReadRecord(h *host.Host) (*Record, error) { return recordFile(h).Valid() }

// WriteRecord leaves how the GPUs are now. On a host without dcm's directory, where dcm is not
// installed, it writes nothing.
func WriteRecord(h *host.Host, v Views) error {
	if _, err := os.Stat(h.Path("var/lib/dcm")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return recordFile(h).Write(Record{Boot: h.BootID(), Taken: time.Now(), Modes: v.Own.Modes})
}

// BootState returns what is known of the current boot.
func BootState(h *host.Host, now Views) Boot {
	b := Boot{ID: h.BootID(), Up: bootTime(h)}
	run, err := runstate.ReadRun(h.Runtime())
	if err != nil || run == nil || run.Boot != b.ID || run.Asked.Why != runstate.Booted {
		return b
	}
	b.Found = make(map[string]string)
	if run.Result == runstate.NoProfile {
		b.Found = now.Own.Modes
	}
	for _, g := range run.GPUs {
		b.Found[string(g.Address)] = ShapeText(g.Before)
	}
	return b
}

// bootTime returns when the kernel started, zero if that is unknown.
func bootTime(h *host.Host) time.Time {
	text, _ := os.ReadFile(h.Path("proc/uptime"))
	first, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(seconds * float64(time.Second)))
}
