// Package placement chooses partitions in the tree of a node's GPUs, memory domains and NUMA nodes.
//
// Its functions are pure: their input is the list of partitions and which of them are taken, their
// result a choice with its reason. The package does not know the holders of partitions, how partitions
// are found, or the vendors.
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
	Pack   Place = "pack"   // on as few GPUs and NUMA nodes as possible, on the GPUs with the fewest free partitions
	Spread Place = "spread" // on many GPUs, then in many memory domains
	Link   Place = "link"   // with the lowest [Sum] of costs
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

// The costs of a pair of partitions, by the closest thing that they have in common: memory domain,
// GPU, XGMI hive or NUMA node. 13 and 41 are KFD's weights of a link in a GPU and in a hive
// (kfd_crat.c). The other values only define an order: XGMI is cheaper than PCIe, and one NUMA node is
// cheaper than two.
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
