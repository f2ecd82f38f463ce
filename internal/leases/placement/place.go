// Package placement is the tree of a node's GPUs, memory domains and NUMA nodes,
// and the choice of partitions in it.
//
// It is pure: it is told which partitions there are and which of them are taken,
// and answers with a choice and its reason. It refuses to know who takes them, how
// they are found and what a partition is made of.
package placement

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
)

// Place is how several partitions shall lie to each other.
type Place string

// The places that can be asked for.
const (
	Pack   Place = "pack"   // on few GPUs, of few NUMA nodes, and those that are fullest already
	Spread Place = "spread" // on many GPUs, then in many memory domains
	Link   Place = "link"   // with the least sum of the [Cost] between each two
)

// Places lists what can be asked for, the default first.
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

// What a pair of partitions costs, by the closest thing that they share. Within a
// GPU and a hive it is the weight that KFD gives the link (kfd_crat.c: 13 inside a
// GPU, 41 between two of a hive, where it tells no NUMA nodes apart); the others
// keep the order: XGMI before PCIe, one NUMA node before two.
const (
	sameDomain = 1
	sameGPU    = 13
	hiveNUMA   = 41 // another GPU of the hive, at the same NUMA node
	hiveOnly   = 60
	pcieNUMA   = 71 // no hive in common, the same NUMA node
	far        = 90
)

// Cost is what the way between two partitions costs, without unit; 0 for a
// partition and itself.
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
