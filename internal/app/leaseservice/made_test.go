package leaseservice

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
)

// Instances are created and destroyed while a GPU is read. None of them becomes one of the profile: a
// request that waits for its slots would be refused.
func TestDynamicGPU_ReadDuringChange(t *testing.T) {
	const gpu = "0000:61:00.0"
	rest := partition.Instance{Profile: "2g.20gb", Start: 0}
	one := made.Name{Lease: "dcm-lease-0-568d1da3.scope", GPU: gpu, Profile: "3g.40gb", Start: 4}
	elsewhere := made.Name{Lease: "dcm-lease-0-568d1da4.scope", GPU: "0000:05:00.0", Profile: "2g.20gb", Start: 0}
	for _, tt := range []struct {
		name          string
		read          []partition.Instance
		before, after []made.Name
		made          []made.Name
	}{
		{"no claim", []partition.Instance{rest}, nil, nil, nil},
		{"unchanged", []partition.Instance{rest, one.Instance()}, []made.Name{one}, []made.Name{one}, []made.Name{one}},
		{"destroyed after the GPU was read", []partition.Instance{rest, one.Instance()}, []made.Name{one}, nil, []made.Name{one}},
		{"destroyed before the GPU was read", []partition.Instance{rest}, []made.Name{one}, nil, nil},
		{"created before the GPU was read", []partition.Instance{rest, one.Instance()}, nil, []made.Name{one}, []made.Name{one}},
		{"created after the GPU was read", []partition.Instance{rest}, nil, []made.Name{one}, []made.Name{one}},
		{"on another GPU", []partition.Instance{rest}, []made.Name{elsewhere}, []made.Name{elsewhere}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := partition.GPU{Address: gpu, MIG: &partition.MIG{Instances: tt.read}}
			got := dynamicGPU(g, tt.before, tt.after)
			if diff := cmp.Diff([]partition.Instance{rest}, got.Fixed); diff != "" {
				t.Errorf("instances of the profile (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.made, got.Made); diff != "" {
				t.Errorf("instances of leases (-want +got):\n%s", diff)
			}
		})
	}
}
