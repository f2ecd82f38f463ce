package placement

import (
	"cmp"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/sorting"
)

// level is how far a node of the tree is from the root.
type level int

const (
	atRoot   level = iota
	atIsland       // a hive, or all GPUs that are in none
	atNUMA         // the GPUs of the island at one NUMA node
	atGPU
	atDomain
)

// tree is a node of it. The cost of a pair of partitions is that of the lowest
// node that has both below it; see [Cost].
type tree struct {
	level    level
	key      any
	cost     int
	children []*tree
	free     []runstate.Part // at the lowest level: what may be chosen
	room     int             // free partitions below
}

// grow makes the tree of the partitions that may be chosen, in PCI order. Leaves
// are memory domains or, with whole, GPUs of which each counts as one.
func grow(free []runstate.Part, whole bool) *tree {
	free = slices.Clone(free)
	sorting.By(free, func(a, b runstate.Part) int {
		return cmp.Or(a.GPU.Compare(b.GPU), cmp.Compare(a.Index, b.Index))
	})
	root := &tree{cost: far}
	for _, p := range free {
		island, numa := far, pcieNUMA
		if p.Hive != 0 {
			island, numa = hiveOnly, hiveNUMA
		}
		leaf := root.child(atIsland, p.Hive, island).child(atNUMA, p.NUMA, numa).child(atGPU, p.GPU, sameGPU)
		if !whole {
			leaf = leaf.child(atDomain, p.Domain, sameDomain)
		}
		leaf.free = append(leaf.free, p)
	}
	root.count(whole)
	return root
}

func (t *tree) child(l level, key any, cost int) *tree {
	for _, c := range t.children {
		if c.key == key {
			return c
		}
	}
	c := &tree{level: l, key: key, cost: cost}
	t.children = append(t.children, c)
	return c
}

func (t *tree) count(whole bool) {
	t.room = len(t.free)
	if whole && t.room > 0 {
		t.room = 1
	}
	for _, c := range t.children {
		c.count(whole)
		t.room += c.room
	}
}
