package nvidia

import (
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// Only a whole GPU has a counter of its energy. MIG devices need no call of the library.
func TestCounters(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"3g.40gb": 1}, 1); err != nil {
		t.Fatal(err)
	}
	devices := b.gpus()
	part := func(d gpu.Device) gpu.CountedPartition {
		return gpu.CountedPartition{Vendor: partition.NVIDIA, GPU: d.Address, Index: d.Parts[0].Index, Of: len(d.Parts), Render: d.Parts[0].RenderNode()}
	}
	b.calls()
	mig, err := b.node.Counters(t.Context(), []gpu.CountedPartition{part(devices[1])})
	if err != nil || len(mig) != 1 || mig[0].Energy != 0 || mig[0].Busy != (gpu.BusyCounter{}) {
		t.Errorf("counters of a MIG device: got %+v, %v", mig, err)
	}
	if calls := b.calls(); len(calls) > 0 {
		t.Errorf("calls of the library for a MIG device: want none, got %v", calls)
	}
	both := []gpu.CountedPartition{part(devices[1]), part(devices[2])}
	first, err := b.node.Counters(t.Context(), both)
	if err != nil || len(first) != 2 || first[0].Energy != 0 || first[1].Energy == 0 || first[1].GPU != devices[2].Address {
		t.Fatalf("counters of a MIG device and a GPU: got %+v, %v", first, err)
	}
	second, err := b.node.Counters(t.Context(), both)
	if err != nil || second[1].Energy <= first[1].Energy {
		t.Errorf("energy: got %d and then %d, %v", first[1].Energy, second[1].Energy, err)
	}
}
