package partition

import (
	"fmt"
	"slices"
)

// Describe returns the profile of the current state of the GPUs. If all GPUs with modes (or
// with MIG) agree, the profile has one shape for them, otherwise a group for each run of
// equal neighbours.
func Describe(name string, have []GPU) (Profile, error) {
	gpus := byAddress(have)
	if len(gpus) == 0 {
		return Profile{}, fmt.Errorf("there are no partitionable GPUs to describe")
	}
	p := Profile{Name: name}
	with := slices.DeleteFunc(slices.Clone(gpus), func(g GPU) bool { return g.MIG == nil })
	modes := slices.DeleteFunc(gpus, func(g GPU) bool { return g.MIG != nil })
	if len(modes) > 0 {
		p.Memory = modes[0].Memory
	}
	for _, g := range modes {
		if g.Memory != p.Memory {
			return Profile{}, fmt.Errorf("%s has %s and %s has %s: a profile has one memory mode for the node", modes[0].Address, p.Memory, g.Address, g.Memory)
		}
	}
	p.Groups = groupNeighbours(modes)
	if len(p.Groups) == 1 {
		p.Compute, p.Settings, p.Groups = modes[0].Compute, modes[0].kept(), nil
	}
	more := groupNeighbours(with)
	if len(more) == 1 {
		p.MIG, more = more[0].MIG, nil
	}
	p.Groups = append(p.Groups, more...)
	return p, nil
}

// groupNeighbours returns a group for each run of equal neighbours.
func groupNeighbours(gpus []GPU) []Group {
	var groups []Group
	for i, g := range gpus {
		if i > 0 && g.Compute == gpus[i-1].Compute && g.Settings == gpus[i-1].Settings && sameGeometry(g, gpus[i-1]) {
			groups[len(groups)-1].Count++
			continue
		}
		one := Group{Compute: g.Compute, Settings: g.kept(), Count: 1}
		if g.MIG != nil {
			m := g.MIG.unplaced()
			one = Group{MIG: &m, Count: 1}
		}
		groups = append(groups, one)
	}
	return groups
}

func sameGeometry(g, o GPU) bool {
	return g.MIG == nil || g.MIG.unplaced().Same(o.MIG.unplaced())
}
