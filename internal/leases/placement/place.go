// Package placement chooses partitions in the tree of a node's GPUs, memory domains and NUMA nodes.
//
// Its functions are pure: their input is the list of partitions and which of them are taken, their
// result a choice with its reason. The package does not know who uses the partitions, how they are
// found, or what they consist of.
package placement

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
)

// Place is the wanted position of several partitions relative to each other.
type Place string

// The places that can be requested.
const (
	Pack   Place = "pack"   // on few GPUs, of few NUMA nodes, and those that are fullest already
	Spread Place = "spread" // on many GPUs, then in many memory domains
	Link   Place = "link"   // with the least sum of the [Cost] between each two
)

// Places returns the places that can be requested, the default first.
func Places() []Place { return []Place{Pack, Spread, Link} }

// ParsePlace accepts the name of a place, and "" for the default.
func ParsePlace(s string) (Place, error) {
	if s == "" {
		return Pack, nil
	}
	if p := Place(s); slices.Contains(Places(), p) {
		return p, nil
	}
	return "", fmt.Errorf("place is %q; accepted are %s", s, joined(Places(), ", "))
}

func joined[T ~string](list []T, by string) string {
	text := make([]string, len(list))
	for i, s := range list {
		text[i] = string(s)
	}
	return strings.Join(text, by)
}

// The cost of a pair of partitions depends on the closest thing that they share. Within a GPU and a
// hive it is KFD's weight of the link (kfd_crat.c: 13 in a GPU, 41 between two GPUs of a hive,
// whatever their NUMA nodes). The other values only keep the order: XGMI before PCIe, one NUMA node
// before two.
const (
	sameDomain = 1
	sameGPU    = 13
	hiveNUMA   = 41 // another GPU of the hive, at the same NUMA node
	hiveOnly   = 60
	pcieNUMA   = 71 // no hive in common, the same NUMA node
	far        = 90
)

// Cost returns the distance between two partitions, without unit; 0 for a partition and itself.
func Cost(a, b runstate.Part) int {
	linked, near := a.Hive != 0 && a.Hive == b.Hive, a.NUMA == b.NUMA
	switch {
	case a.GPU == b.GPU && a.Index == b.Index:
		return 0
	case a.GPU == b.GPU && a.Domain == b.Domain:
		return sameDomain
	case a.GPU == b.GPU:
		return sameGPU
	case linked && near:
		return hiveNUMA
	case linked:
		return hiveOnly
	case near && a.Hive == 0 && b.Hive == 0:
		return pcieNUMA
	}
	return far
}
