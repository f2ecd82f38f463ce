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

// GPU is what was seen of one, with as much of its partitions as facts are made of.
type GPU struct {
	partition.GPU
	Model string
	Parts []Part
}

// Part is a partition.
type Part struct {
	Minor        int // of the render node; 0 for none
	ComputeUnits int
	Memory       uint64
}

// Facts are what there is to know of a model, by its name and that of the fact.
type Facts map[string]map[string]string

// Look adds what can be seen of the GPUs as they are.
func (f Facts) Look(gpus []GPU) {
	for _, g := range gpus {
		if g.MIG != nil {
			f.geometry(g)
			continue
		}
		f.mode(g)
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

func (f Facts) mode(g GPU) {
	const without = "none: it cannot be changed"
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
	f.parts(g, " in "+at)
}

// parts tells of what the partitions are, each kind once.
func (f Facts) parts(g GPU, in string) {
	var units, memory, nodes []string
	for i, p := range g.Parts {
		units = once(units, fmt.Sprint(p.ComputeUnits))
		memory = once(memory, fmt.Sprintf("%.1f GiB", float64(p.Memory)/(1<<30)))
		if i > 0 && p.Minor > 0 {
			nodes = once(nodes, fmt.Sprint(p.Minor-g.Parts[i-1].Minor))
		}
	}
	f.add(g.Model, "compute units of a partition"+in, strings.Join(units, ", "))
	f.add(g.Model, "memory of a partition"+in, strings.Join(memory, ", "))
	if len(nodes) > 0 {
		f.add(g.Model, "from one render node to the next", strings.Join(nodes, ", "))
	}
}

func once(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

func (f Facts) geometry(g GPU) {
	f.add(g.Model, "PCI device", fmt.Sprintf("%#04x:%#04x", uint16(g.Vendor), g.Device))
	f.add(g.Model, "MIG on or off", map[bool]string{true: "resets the GPU", false: "without a reset"}[g.ModeResetsGPU])
	for _, s := range g.Profiles {
		starts := strings.Trim(fmt.Sprint(s.Starts), "[]")
		f.add(g.Model, "MIG profile "+s.Name, fmt.Sprintf("id %d, at most %d, %d slots from %s", s.ID, s.InstanceCount, s.Size, starts))
	}
}

// Loaded adds which compute mode the driver has picked with a memory mode, when it was
// loaded in a run: the one that was switched from behind the load, or else was wanted.
func (f Facts) Loaded(run runstate.Run) {
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
			f.add(g.Model, "compute mode that the driver picks with "+string(g.Now.Memory), string(picked))
		}
	}
}

// add notes a fact. GPUs of a model that differ are told of together.
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

// Row is a fact as the simulator claims it and as it was seen.
type Row struct {
	Model   string `json:"model"`
	Fact    string `json:"fact"`
	Claimed string `json:"claimed"` // "" for nothing
	Seen    string `json:"seen"`    // "" for not
}

// Differs reports whether something else was seen than is claimed.
func (r Row) Differs() bool { return r.Seen != "" && r.Seen != r.Claimed }

// Table puts what was seen beside what is claimed, of the models that were seen.
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
