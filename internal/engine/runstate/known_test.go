package runstate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestKnown_Absent(t *testing.T) {
	const a, b, n = "0000:05:00.0", "0000:26:00.0", "0000:41:00.0"
	known := Known{GPUs: []string{a, b, n}, Details: map[string]KnownGPU{a: {Vendor: "amd"}, b: {Vendor: "amd"}, n: {Vendor: "nvidia"}}}
	amd, nvidia := partition.GPU{Address: a, Vendor: partition.AMD}, partition.GPU{Address: n, Vendor: partition.NVIDIA}
	lost := []partition.Absent{{Vendor: partition.AMD, Address: b}}
	for _, tt := range []struct {
		name    string
		known   Known
		count   int
		present []partition.GPU
		want    []partition.Absent
	}{
		{"one is missing", known, 0, []partition.GPU{amd, nvidia}, lost},
		{"more are expected", known, 4, []partition.GPU{amd, nvidia}, lost},
		{"the loss is accepted", known, 2, []partition.GPU{amd, nvidia}, nil},
		{"all of a vendor", known, 0, []partition.GPU{amd, {Address: b, Vendor: partition.AMD}}, []partition.Absent{{Vendor: partition.NVIDIA, Address: n}}},
		{"another board instead of it", known, 0, []partition.GPU{amd, nvidia, {Address: "0000:46:00.0", Vendor: partition.AMD}}, nil},
		{"an unknown vendor", Known{GPUs: []string{a, b}}, 0, []partition.GPU{amd}, nil},
		{"no file", Known{}, 0, []partition.GPU{amd}, nil},
	} {
		if diff := cmp.Diff(tt.want, tt.known.Absent(tt.count, tt.present)); diff != "" {
			t.Errorf("%s: missing (-want +got):\n%s", tt.name, diff)
		}
	}
}
