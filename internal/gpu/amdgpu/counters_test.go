package amdgpu

import (
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/testkit/sim"
)

// counted reads the counters of the first partitions of the first GPU.
func (b backend) counted(t *testing.T, parts int) []gpu.PartitionCounters {
	t.Helper()
	d := b.devices(t)[0]
	var list []gpu.CountedPartition
	for _, p := range d.Parts[:parts] {
		list = append(list, gpu.CountedPartition{Vendor: partition.AMD, GPU: d.Address, Index: p.Index, Of: len(d.Parts), Render: p.RenderNode()})
	}
	all, err := b.node.all.Counters(patient(t), list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The difference of two readings gives the mean busy time, and the energy at 300 W.
func TestCounters(t *testing.T) {
	for _, tt := range []struct {
		format       sim.UsageFormat
		mode         partition.Compute
		parts        int
		busy, energy bool
	}{
		{sim.UsagePartitions, partition.CPX, 2, true, true},
		{sim.UsagePartitions, partition.SPX, 1, true, true},
		{sim.UsageAttributes, partition.CPX, 2, true, true},
		{sim.UsageGPU16, partition.CPX, 2, true, true},
		{sim.UsageGPU17, partition.CPX, 2, true, true},
		{sim.UsageGPU18, partition.SPX, 1, true, true},
		{sim.UsageSums, partition.CPX, 2, true, true},
		{sim.UsageGPU13, partition.CPX, 2, false, false},
		{sim.UsageNothing, partition.SPX, 1, false, false},
		{sim.UsageShort, partition.CPX, 2, false, false},
		{sim.UsageOther, partition.SPX, 1, false, false},
	} {
		t.Run(string(tt.format)+" "+string(tt.mode), func(t *testing.T) {
			b := inMode(t, tt.format, tt.mode)
			name := string(b.devices(t)[0].Address)
			busy := []uint64{60, 20}
			for i := range tt.parts {
				b.use(t, sim.Using{Partition: name + "-" + string(rune('0'+i)), Busy: &busy[i]})
			}
			first, second := b.counted(t, tt.parts), b.counted(t, tt.parts)
			for i := range tt.parts {
				from, to := first[i], second[i]
				if !tt.busy {
					if to.Busy != (gpu.BusyCounter{}) {
						t.Errorf("busy counter of partition %d: got %+v, want none", i, to.Busy)
					}
				} else if cycles := to.Busy.Cycles - from.Busy.Cycles; cycles == 0 || (to.Busy.Sum-from.Busy.Sum)/cycles != busy[i] {
					t.Errorf("busy counters of partition %d: got %+v and %+v, want a mean of %d", i, from.Busy, to.Busy, busy[i])
				}
				if got := to.Energy > from.Energy; got != tt.energy || to.Energy%300e6 != 0 {
					t.Errorf("energy of partition %d: got %d and %d, want growth %v in units of 300 J", i, from.Energy, to.Energy, tt.energy)
				}
			}
		})
	}
}

func TestGPUTotals_Damaged(t *testing.T) {
	whole := []byte{60, 0, 1, 8}
	for len(whole) < 60 {
		whole = append(whole, 0)
	}
	for _, table := range [][]byte{nil, {4}, {4, 0, 1, 8}, whole[:40], {8, 0, 1, 9, 255, 255, 255, 127}} {
		if got, err := gpuTotals(table); err == nil {
			t.Errorf("%v: got %+v, want an error", table, got)
		}
	}
	if got, err := gpuTotals(whole); err != nil || got != (totals{}) {
		t.Errorf("zeros: got %+v, %v", got, err)
	}
}
