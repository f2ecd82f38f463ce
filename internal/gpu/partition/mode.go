package partition

import (
	"fmt"
	"slices"
	"strings"
)

// Compute is a compute partition mode, spelled as in current_compute_partition.
type Compute string

// Compute partition modes of the amdgpu driver.
const (
	SPX Compute = "SPX" // one partition with all XCCs
	DPX Compute = "DPX" // two partitions
	TPX Compute = "TPX" // three partitions
	QPX Compute = "QPX" // four partitions
	CPX Compute = "CPX" // one partition per XCC
)

// Memory is a memory partition mode (NUMA nodes per socket), spelled as in
// current_memory_partition.
type Memory string

// Memory partition modes of the amdgpu driver.
const (
	NPS1 Memory = "NPS1"
	NPS2 Memory = "NPS2"
	NPS4 Memory = "NPS4"
	NPS8 Memory = "NPS8"
)

// ComputeModes lists every compute partition mode, fewest partitions first.
func ComputeModes() []Compute { return []Compute{SPX, DPX, TPX, QPX, CPX} }

// MemoryModes lists every memory partition mode, fewest domains first.
func MemoryModes() []Memory { return []Memory{NPS1, NPS2, NPS4, NPS8} }

// ParseCompute returns the compute mode of exactly that name.
func ParseCompute(s string) (Compute, error) {
	return parseMode("compute partition", s, ComputeModes())
}

// ParseMemory returns the memory mode of exactly that name.
func ParseMemory(s string) (Memory, error) {
	return parseMode("memory partition", s, MemoryModes())
}

func parseMode[M ~string](kind, s string, all []M) (M, error) {
	if m := M(s); slices.Contains(all, m) {
		return m, nil
	}
	return "", fmt.Errorf("unknown %s mode %q: accepted are %s", kind, s, List(all))
}

// List joins modes, addresses or names for a message: "SPX, DPX, CPX".
func List[S ~string](items []S) string {
	var b strings.Builder
	for i, m := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(m))
	}
	return b.String()
}

// listFew is List with at most four items; further ones are counted.
func listFew[S ~string](items []S) string {
	const most = 4
	if len(items) <= most {
		return List(items)
	}
	return fmt.Sprintf("%s and %d more", List(items[:most-1]), len(items)-most+1)
}

// Partitions returns the number of partitions of a GPU with xcc XCCs in the mode, 0 if
// unknown.
func (c Compute) Partitions(xcc int) int {
	switch c {
	case SPX:
		return 1
	case DPX:
		return 2
	case TPX:
		return 3
	case QPX:
		return 4
	case CPX:
		return xcc
	}
	return 0
}

// Domains returns the number of memory domains of a GPU in the mode, 0 if unknown.
func (m Memory) Domains() int {
	switch m {
	case NPS1:
		return 1
	case NPS2:
		return 2
	case NPS4:
		return 4
	case NPS8:
		return 8
	}
	return 0
}

// Domain returns the memory domain of the partition with that index, of a GPU with that many
// partitions. Neighbours share a domain (amdgpu_xcp.c: amdgpu_xcp_get_mem_id).
func (m Memory) Domain(index, of int) int {
	if of == 0 {
		return 0
	}
	return index * m.Domains() / of
}

// AutoCompute returns the compute mode that the driver selects at its load with memory mode
// m, "" if unknown (gfx_v9_4_3: __aqua_vanjaram_get_auto_mode).
func (m Memory) AutoCompute() Compute {
	switch m {
	case NPS1:
		return SPX
	case NPS2:
		return DPX
	case NPS4, NPS8:
		return CPX
	}
	return ""
}
