package selftest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// tolerance is the share by which memory sizes may differ: the driver rounds the size of a memory
// domain up, so that the last one is 16 MiB smaller (gmc_v9_0.c: gmc_v9_0_init_sw_mem_ranges), and it
// keeps some memory for itself.
const tolerance = 1.0 / 64

// Siblings compares the partitions of each GPU with each other, and their sum with the GPU. units are
// the compute units of the GPUs in an earlier mode; it gets those of GPUs that it lacks.
func Siblings(at string, gpus []GPU, units map[partition.Address]int) []Check {
	var memory, compute, dies, sums []string
	n := 0
	for _, g := range gpus {
		n += len(g.Parts)
		memory = append(memory, different(g, closeBytes, func(p Part) uint64 { return p.Memory }, gib)...)
		compute = append(compute, different(g, equal, func(p Part) int { return p.ComputeUnits }, decimal(" compute units"))...)
		dies = append(dies, different(g, equal, func(p Part) int { return p.XCC }, decimal(" XCCs"))...)
		sums = append(sums, sum(g, units)...)
	}
	all := fmt.Sprintf("%d partitions of %d GPUs", n, len(gpus))
	return about(Partitions,
		verdict(at, "memory of the partitions of a GPU", memory, all),
		verdict(at, "compute units of the partitions of a GPU", compute, all),
		verdict(at, "slice sizes of the partitions of a GPU", dies, all),
		verdict(at, "sum of the partitions of a GPU", sums, all))
}

// different lists the partitions whose value is not that of most of their siblings. With MIG, only
// instances of the same profile are siblings.
func different[T cmp.Ordered](g GPU, same func(a, b T) bool, value func(Part) T, text func(T) string) []string {
	kinds := make(map[string][]T)
	for _, p := range g.Parts {
		kinds[p.Profile] = append(kinds[p.Profile], value(p))
	}
	var out []string
	for i, p := range g.Parts {
		if most := usual(kinds[p.Profile], same); !same(value(p), most) {
			out = append(out, fmt.Sprintf("%s: partition %d has %s (want %s, as the others)", g.Address, i, text(value(p)), text(most)))
		}
	}
	return out
}

// usual returns the value that most others equal.
func usual[T cmp.Ordered](values []T, same func(a, b T) bool) T {
	return slices.MaxFunc(values, func(a, b T) int { return cmp.Compare(count(values, a, same), count(values, b, same)) })
}

func count[T any](values []T, v T, same func(a, b T) bool) int {
	n := 0
	for _, other := range values {
		if same(v, other) {
			n++
		}
	}
	return n
}

// sum compares the sum of the partitions of a GPU with modes with the GPU.
func sum(g GPU, units map[partition.Address]int) []string {
	if g.MIG != nil || len(g.Parts) == 0 {
		return nil
	}
	var out []string
	var total, most uint64
	xcc, cus := 0, 0
	for _, p := range g.Parts {
		total, most, xcc, cus = total+p.Memory, max(most, p.Memory), xcc+p.XCC, cus+p.ComputeUnits
	}
	// Partitions of an APU have memory of the host, which is not in the GPU's size.
	if g.Bytes >= most && most > 0 && !closeBytes(total, g.Bytes) {
		out = append(out, fmt.Sprintf("%s: the partitions have %s (want %s)", g.Address, gib(total), gib(g.Bytes)))
	}
	if xcc > 0 && g.XCC > 0 && xcc != g.XCC {
		out = append(out, fmt.Sprintf("%s: the partitions have %d XCCs (want %d)", g.Address, xcc, g.XCC))
	}
	if before, known := units[g.Address]; !known {
		units[g.Address] = cus
	} else if cus != before {
		out = append(out, fmt.Sprintf("%s: the partitions have %d compute units (want %d, as before)", g.Address, cus, before))
	}
	return out
}

// TopologyIDs checks that each partition has its own render node, and its own id in KFD: 0 is a node
// without a GPU.
func TopologyIDs(at string, gpus []GPU) []Check {
	var bad []string
	owner, minors := make(map[string]string), make(map[int]string)
	for _, g := range gpus {
		for i, p := range g.Parts {
			if g.MIG != nil {
				continue
			}
			name := fmt.Sprintf("%s partition %d", g.Address, i)
			if other := minors[p.Minor]; other != "" {
				bad = append(bad, fmt.Sprintf("%s has the render node of %s (renderD%d)", name, other, p.Minor))
			}
			minors[p.Minor] = name
			switch other := owner[p.ID]; {
			case p.ID == "" || p.ID == "0":
				bad = append(bad, name+" has no id")
			case other != "":
				bad = append(bad, fmt.Sprintf("%s has the id of %s (%s)", name, other, p.ID))
			default:
				owner[p.ID] = name
			}
		}
	}
	if len(bad) == 0 && len(owner) == 0 {
		return nil
	}
	return about(Partitions, verdict(at, "ids in KFD", bad, fmt.Sprintf("%d are different", len(owner))))
}

// NUMANodes checks the NUMA nodes of the GPUs. On a host with one node, the firmware may report none.
func NUMANodes(at string, gpus []GPU, online []int) []Check {
	var bad, seen []string
	for _, g := range gpus {
		switch {
		case g.NUMA < 0 && len(online) == 1 && online[0] == 0 && !anyNUMA(gpus):
			seen = appendDistinct(seen, "none, on a host with one node")
		case g.NUMA < 0:
			bad = append(bad, string(g.Address)+" has no NUMA node")
		case online != nil && !slices.Contains(online, g.NUMA):
			bad = append(bad, fmt.Sprintf("%s has NUMA node %d, which is not online", g.Address, g.NUMA))
		default:
			seen = appendDistinct(seen, fmt.Sprint(g.NUMA))
		}
	}
	return about(Modes, verdict(at, "NUMA nodes", bad, strings.Join(seen, ", ")))
}

func anyNUMA(gpus []GPU) bool {
	return slices.ContainsFunc(gpus, func(g GPU) bool { return g.NUMA >= 0 })
}

func equal(a, b int) bool { return a == b }

func closeBytes(a, b uint64) bool {
	return float64(max(a, b)-min(a, b)) <= tolerance*float64(max(a, b))
}

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

func decimal(unit string) func(int) string {
	return func(n int) string { return fmt.Sprint(n) + unit }
}
