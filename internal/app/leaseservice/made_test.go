package leaseservice

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/lease"
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

// A dynamic GPU that cannot be read now may be read later, so its absence is not permanent.
func TestMissingDynamic(t *testing.T) {
	const gone = "0000:61:00.0"
	dynamic := partition.Profile{Groups: []partition.Group{{Dynamic: true}}}
	devices := func(missing ...partition.Absent) []gpu.Device {
		return []gpu.Device{{GPU: partition.GPU{Address: "0000:05:00.0", Missing: missing}}, {GPU: partition.GPU{Address: gone, Missing: missing}, SkipReason: "no reply"}}
	}
	for _, tt := range []struct {
		name    string
		profile partition.Profile
		devices []gpu.Device
		want    string // "" for no error
	}{
		{"no GPU", dynamic, nil, ""},
		{"all present", dynamic, devices(), ""},
		{"no dynamic group", partition.Profile{Groups: []partition.Group{{}}}, devices(partition.Absent{Address: gone}), ""},
		{"unreadable", dynamic, devices(partition.Absent{Address: gone}), "cannot read the dynamic GPUs: 0000:61:00.0 is missing: no reply"},
		{"removed", dynamic, devices(partition.Absent{Address: gone})[:1], "cannot read the dynamic GPUs: 0000:61:00.0 is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := missingDynamic(tt.profile, tt.devices); err != nil {
				if got = err.Error(); !lease.Passes(err) {
					t.Errorf("not transient: %v", err)
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Which GPUs are dynamic is known for one configuration and one set of GPUs.
func TestKnownDynamic(t *testing.T) {
	var k knownDynamic
	cfg, all := &config.Config{}, []string{"0000:05:00.0", "0000:61:00.0"}
	mig := partition.GPU{Address: "0000:61:00.0", Vendor: partition.NVIDIA}
	list := onlyMIG([]partition.GPU{mig})
	if got := k.get(cfg, all); got != nil {
		t.Errorf("at first: got %q", got)
	}
	k.set(cfg, all, list)
	if got := k.get(cfg, all); len(got) != 1 || got[0] != mig.Address {
		t.Errorf("after a reading: got %q, want %q", got, list)
	}
	if got := k.get(&config.Config{}, all); got != nil {
		t.Errorf("with another configuration: got %q", got)
	}
	if got := k.get(cfg, all[:1]); got != nil {
		t.Errorf("with other GPUs: got %q", got)
	}
	if got := onlyMIG([]partition.GPU{mig, {Address: "0000:05:00.0", Vendor: partition.AMD}}); got != nil {
		t.Errorf("with a GPU whose mode leases switch: got %q", got)
	}
}
