package selftest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// GPU is an observed GPU with the facts of its partitions.
type GPU struct {
	partition.GPU
	Model string
	NUMA  int    // -1 if unknown
	Bytes uint64 // size of the memory; 0 if unknown
	Parts []Part
}

// Part is an observed partition.
type Part struct {
	Minor        int    // of the render node; 0 for none
	Profile      string // MIG profile
	ID           string // in the driver's topology
	XCC          int    // accelerator dies; 0 if unknown
	ComputeUnits int
	Memory       uint64 // bytes; 0 if unknown
}

// Facts are the observations of a model, by the model's name and the fact's.
type Facts map[string]map[string]string

// AddGPUs adds the facts of the GPUs in their current state.
func (f Facts) AddGPUs(gpus []GPU) {
	for _, g := range gpus {
		if g.MIG != nil {
			f.addGeometry(g)
			continue
		}
		f.addMode(g)
	}
	hives := make(map[uint64]int)
	for _, g := range gpus {
		hives[g.Hive]++
	}
	for _, g := range gpus {
		if g.Hive != 0 {
			f.add(g.Model, "GPUs in a hive", fmt.Sprint(hives[g.Hive]))
		}
	}
}

func (f Facts) addMode(g GPU) {
	const without = "none (fixed)"
	memories := without
	if g.AvailableMemory != nil {
		memories = partition.List(g.AvailableMemory)
	}
	f.add(g.Model, "PCI device", fmt.Sprintf("%#04x:%#04x", uint16(g.Vendor), g.Device))
	f.add(g.Model, "memory modes", memories)
	f.add(g.Model, "compute modes with "+string(g.Memory), partition.List(g.AvailableCompute))
	f.add(g.Model, "XCCs", fmt.Sprint(g.XCC))
	at := g.Mode().String()
	f.add(g.Model, "partitions in "+at, fmt.Sprint(len(g.Parts)))
	f.addPartitions(g, " in "+at)
}

// addPartitions adds the properties of the partitions, each distinct value once.
func (f Facts) addPartitions(g GPU, in string) {
	var units, memory, nodes []string
	for i, p := range g.Parts {
		units = appendDistinct(units, fmt.Sprint(p.ComputeUnits))
		memory = appendDistinct(memory, fmt.Sprintf("%.1f GiB", float64(p.Memory)/(1<<30)))
		if i > 0 && p.Minor > 0 {
			nodes = appendDistinct(nodes, fmt.Sprint(p.Minor-g.Parts[i-1].Minor))
		}
	}
	f.add(g.Model, "compute units of a partition"+in, strings.Join(units, ", "))
	f.add(g.Model, "memory of a partition"+in, strings.Join(memory, ", "))
	if len(nodes) > 0 {
		f.add(g.Model, "distance of render nodes", strings.Join(nodes, ", "))
	}
}

func appendDistinct(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

func (f Facts) addGeometry(g GPU) {
	f.add(g.Model, "PCI device", fmt.Sprintf("%#04x:%#04x", uint16(g.Vendor), g.Device))
	f.add(g.Model, "MIG on or off", map[bool]string{true: "resets the GPU", false: "without a reset"}[g.ModeResetsGPU])
	for _, s := range g.Profiles {
		starts := strings.Trim(fmt.Sprint(s.Starts), "[]")
		f.add(g.Model, "MIG profile "+s.Name, fmt.Sprintf("id %d, at most %d, %d slots from %s", s.ID, s.InstanceCount, s.Size, starts))
	}
}

// AddDriverDefault adds which compute mode the driver chose for a memory mode, if a run loaded
// the driver. That is the mode from which a step after the load switched, or else the final
// one.
func (f Facts) AddDriverDefault(run runstate.Run) {
	for _, g := range run.GPUs {
		picked, loaded := g.Now.Compute, false
		for _, s := range run.Steps {
			switch {
			case s.Kind.Reloads():
				loaded = true
			case loaded && s.GPU == g.Address:
				picked = partition.Compute(s.From)
			}
		}
		if loaded && g.Now.Memory != "" {
			f.add(g.Model, "driver's compute mode with "+string(g.Now.Memory), string(picked))
		}
	}
}

// add records a fact. Different values of GPUs of one model are joined by "or".
func (f Facts) add(model, fact, seen string) {
	if f[model] == nil {
		f[model] = make(map[string]string)
	}
	if was, ok := f[model][fact]; ok && !slices.Contains(strings.Split(was, " or "), seen) {
		seen = was + " or " + seen
	} else if ok {
		return
	}
	f[model][fact] = seen
}

// Row is a fact with the value that the simulator claims and the observed one.
type Row struct {
	Model   string `json:"model"`
	Fact    string `json:"fact"`
	Claimed string `json:"claimed"` // "" for nothing
	Seen    string `json:"seen"`    // "" for not
}

// Differs reports whether the observed value is not the claimed one.
func (r Row) Differs() bool { return r.Seen != "" && r.Seen != r.Claimed }

// Table joins claimed and observed facts of the observed models.
func Table(claimed, seen Facts) []Row {
	var out []Row
	for model, facts := range seen {
		all := maps.Clone(claimed[model])
		if all == nil {
			all = make(map[string]string)
		}
		maps.Copy(all, facts)
		for fact := range all {
			out = append(out, Row{model, fact, claimed[model][fact], facts[fact]})
		}
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.Fact, b.Fact))
	})
	return out
}
