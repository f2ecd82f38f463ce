package nvidia

import (
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// The benchmarks count calls of the library: the library is a stand-in, so its times say nothing
// about the real one.

// BenchmarkLook reads all GPUs, like a run without steps.
func BenchmarkLook(b *testing.B) {
	n := newBench(b, "h100-8")
	if err := n.make(map[string]int{"1g.10gb": 7}, 0, 1, 2, 3, 4, 5, 6, 7); err != nil {
		b.Fatal(err)
	}
	n.calls()
	looks, loads := 0, 0
	for b.Loop() {
		n.gpus()
		looks++
		loads += n.calls()["-"]
	}
	b.ReportMetric(float64(loads)/float64(looks), "loads/look")
}

// BenchmarkOneOfEight changes one GPU, from one geometry to another.
func BenchmarkOneOfEight(b *testing.B) {
	n := newBench(b, "h100-8")
	devices := n.gpus()
	ways := []map[string]int{{"1g.10gb": 7}, {"3g.40gb": 2}}
	own, others, changes := 0, 0, 0
	for b.Loop() {
		steps := n.planned(ways[changes%2], 2)
		n.calls()
		for len(steps) > 0 {
			now, later := steps.NextBatch()
			if err := n.node.Execute(b.Context(), now, func(partition.Step, bool, error) {}); err != nil {
				b.Fatal(err)
			}
			steps = later
		}
		changes++
		for address, calls := range n.calls() {
			switch address {
			case string(devices[2].Address):
				own += calls
			case "-":
			default:
				others += calls
			}
		}
	}
	b.ReportMetric(float64(own)/float64(changes), "calls/change")
	b.ReportMetric(float64(others)/float64(changes), "calls-for-others/change")
}

func (b *bench) planned(counts map[string]int, which int) partition.Steps {
	b.t.Helper()
	m, err := partition.NewMIG(counts)
	if err != nil {
		b.t.Fatal(err)
	}
	devices := b.gpus()
	steps, err := partition.Plan(partition.Layout{Shapes: map[partition.Address]partition.Shape{devices[which].Address: {MIG: &m}}}, gpu.Partitionable(devices))
	if err != nil {
		b.t.Fatal(err)
	}
	return steps
}

func TestRead_LoadsLibraryOnce(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"1g.10gb": 7}, 0, 1); err != nil {
		t.Fatal(err)
	}
	b.calls()
	for range 3 {
		b.gpus()
		if got := b.calls()["-"]; got != 1 {
			t.Errorf("the library was loaded %d times, want once", got)
		}
	}
	if _, err := b.node.Usage(t.Context()); err != nil || len(b.calls()) > 0 {
		t.Errorf("the usage was not read from the reply: %v", err)
	}
}
