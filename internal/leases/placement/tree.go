package placement

import (
	"cmp"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
)

// level is the level of a node in the tree.
type level int

const (
	atRoot   level = iota
	atIsland       // the GPUs of one XGMI hive, or all GPUs that are in no hive
	atNUMA         // those GPUs of the island that are at one NUMA node
	atGPU
	atDomain
)

// tree is a node of the tree with its descendants. The cost of a pair of partitions, see [Cost], is
// the cost of the lowest node that contains both.
type tree struct {
	level    level
	key      any
	cost     int
	children []*tree
	free     []runstate.Part // of a leaf: the partitions that can be chosen
	late     int             // of a GPU: the penalty for each of its partitions, see [Want.Late]
	room     int             // number of partitions, or of whole GPUs, that can be chosen below
}

// grow builds the tree of the partitions that can be chosen, in PCI order. Its leaves are memory
// domains. With whole they are GPUs, each of which counts as one.
func grow(free []runstate.Part, whole bool, late map[partition.Address]int) *tree {
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
		if n := late[p.GPU]; n > 0 {
			leaf.late = 1
			for range n - 1 {
				leaf.late *= lateWeight
			}
		}
		if !whole {
			leaf = leaf.child(atDomain, p.Domain, sameDomain)
		}
		leaf.free = append(leaf.free, p)
	}
	root.count(whole)
	return root
}

// child returns the child with a key. It adds the child if there is none.
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

// count sets room.
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
