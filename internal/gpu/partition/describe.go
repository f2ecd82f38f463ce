package partition

import (
	"fmt"
	"slices"
)

// Describe returns the profile that the GPUs have now: one shape for all of a side
// where they agree, groups of neighbours where they do not.
func Describe(name string, have []GPU) (Profile, error) {
	gpus := inOrder(have)
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
	p.Groups = runsOf(modes)
	if len(p.Groups) == 1 {
		p.Compute, p.Groups = modes[0].Compute, nil
	}
	more := runsOf(with)
	if len(more) == 1 {
		p.MIG, more = more[0].MIG, nil
	}
	p.Groups = append(p.Groups, more...)
	return p, nil
}

// runsOf makes groups of neighbours that are alike.
func runsOf(gpus []GPU) []Group {
	var groups []Group
	for i, g := range gpus {
		if i > 0 && g.Compute == gpus[i-1].Compute && g.alike(gpus[i-1]) {
			groups[len(groups)-1].Count++
			continue
		}
		one := Group{Compute: g.Compute, Count: 1}
		if g.MIG != nil {
			m := g.MIG.anywhere()
			one = Group{MIG: &m, Count: 1}
		}
		groups = append(groups, one)
	}
	return groups
}

func (g GPU) alike(o GPU) bool {
	return g.MIG == nil || g.MIG.anywhere().Same(o.MIG.anywhere())
}
