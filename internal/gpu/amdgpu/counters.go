package amdgpu

import (
	"context"
	"fmt"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/sysfs"
)

// counters is the Counters of [gpu.Vendor]. It reads gpu_metrics once for each GPU, and xcp_metrics of each
// partition if the driver has it.
func (n *meter) counters(ctx context.Context, parts []gpu.CountedPartition) ([]gpu.PartitionCounters, error) {
	all, err := sysfs.Within(ctx, func() ([]gpu.PartitionCounters, error) {
		tables := make(map[partition.Address][]byte)
		out := make([]gpu.PartitionCounters, len(parts))
		for i, p := range parts {
			table, read := tables[p.GPU]
			if !read {
				table, _ = sysfs.Bytes(n.roots.AttributePath(p.GPU, "gpu_metrics")) // absent: no counters
				tables[p.GPU] = table
			}
			out[i] = n.countersOf(p, table)
		}
		return out, nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the counters of the GPUs: %w", err)
	}
	return all, nil
}

func (n *meter) countersOf(p gpu.CountedPartition, table []byte) gpu.PartitionCounters {
	out := gpu.PartitionCounters{GPU: p.GPU, Index: p.Index}
	whole, err := gpuTotals(table)
	if err != nil {
		return out
	}
	out.Energy = whole.energy
	a, err := n.readXCPActivity(gpu.Part{Node: p.Render})
	if err != nil {
		a, err = gpuActivity(table, p.Index, p.Of)
	}
	if err != nil {
		return out
	}
	if !a.hasCycles { // xcp_metrics has the sums only
		a.cycles, a.hasCycles = whole.cycles, whole.cycles > 0
	}
	var u gpu.PartitionUsage
	a.fill(&u)
	out.Busy = u.Counter
	return out
}

// totals are counters of a whole GPU. 0 is an unknown value.
type totals struct {
	cycles uint64 // accumulation_counter
	energy uint64 // microjoules
}

// energyUnits is the number of units of energy_accumulator in a joule (kgd_pp_interface.h: 15.259 uJ).
const energyUnits = 1 << 16

// attrEnergy is the id of energy_accumulator in a list of attributes.
const attrEnergy = 7

// gpuTotals reads the counters of the whole GPU from gpu_metrics.
func gpuTotals(data []byte) (t totals, err error) {
	v, table, err := splitHeader(data)
	if err != nil {
		return t, err
	}
	var units, cycles []uint64
	if f, ok := gpuLayout(v); ok {
		at := f.cycles - 16 // energy_accumulator (u64), system_clock_counter (u64), accumulation_counter (u32)
		if len(table) < f.cycles+4 {
			return t, errTableShort
		}
		units, cycles = knownValue(table[at:], 8), knownValue(table[f.cycles:], 4)
	} else if v == (version{1, 9}) {
		if units, cycles, err = attributeTotals(table); err != nil {
			return t, err
		}
	} else {
		return t, &layoutError{v}
	}
	if len(units) == 1 {
		t.energy = units[0]/energyUnits*1e6 + units[0]%energyUnits*1e6/energyUnits
	}
	if len(cycles) == 1 {
		t.cycles = cycles[0]
	}
	return t, nil
}

// attributeTotals reads energy_accumulator and accumulation_counter from a list of attributes.
func attributeTotals(table []byte) (units, cycles []uint64, err error) {
	a, err := parseAttributes(table)
	if a.hasCycles {
		cycles = []uint64{a.cycles}
	}
	return a.energy, cycles, err
}
