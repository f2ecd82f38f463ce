package nvidia

import (
	"testing"

	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// loads counts how often f loads the library.
func (b *bench) loads(f func()) int {
	b.t.Helper()
	b.calls()
	f()
	return b.calls()["-"]
}

// The first read after a change of one GPU loads no library, and the next one does.
func TestDescribe_ReuseReply(t *testing.T) {
	b := newBench(t, "h100-8")
	if err := b.make(map[string]int{"1g.10gb": 1}, 0); err != nil {
		t.Fatal(err)
	}
	a := b.gpus()[0].Address
	b.parts.inventory.reuse = true
	only := gpu.Open(b.parts.host.Sys, []gpu.Vendor{b.parts.vendor()}, gpu.Only(a))
	one := partition.Instance{Profile: "2g.20gb", Start: 2}
	execute := func(kind partition.Kind) {
		t.Helper()
		step := partition.Step{Kind: kind, GPU: a, MIG: &partition.MIG{Instances: []partition.Instance{one}}, Alone: true}
		if err := only.Execute(t.Context(), partition.Steps{step}, func(partition.Step, bool, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	parts := func() int {
		t.Helper()
		devices, err := only.Devices(t.Context())
		if err != nil || len(devices) != 1 || devices[0].Address != a {
			t.Fatalf("devices: %+v, %v", devices, err)
		}
		return len(devices[0].MIG.Instances)
	}
	for _, tt := range []struct {
		kind partition.Kind
		want int
	}{{partition.CreateInstances, 2}, {partition.DestroyInstances, 1}, {partition.DestroyInstances, 1}} {
		execute(tt.kind)
		for read, want := range []int{0, 1} {
			if loads := b.loads(func() {
				if got := parts(); got != tt.want {
					t.Errorf("%s: got %d instances, want %d", tt.kind, got, tt.want)
				}
			}); min(loads, 1) != want {
				t.Errorf("%s, read %d: %d loads, want %d", tt.kind, read, loads, want)
			}
		}
	}
}
