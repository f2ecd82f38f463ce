package reservation

import (
	"strings"
	"testing"

	"dcm/internal/gpu/partition"
)

func TestNothingToMake(t *testing.T) {
	var h100 []partition.InstanceProfile
	for _, b := range partition.Boards() {
		if b.Name == "H100-80GB" {
			h100 = b.Profiles
		}
	}
	mig := partition.GPU{Address: "0000:1b:00.0", Vendor: partition.NVIDIA, MIG: &partition.MIG{}, Profiles: h100}
	instances := func(names ...string) *partition.MIG {
		m := new(partition.MIG)
		for _, name := range names {
			m.Instances = append(m.Instances, partition.Instance{Profile: name, Start: -1})
		}
		return m
	}
	amd := partition.GPU{Address: "0000:05:00.0", Vendor: partition.AMD, Compute: partition.SPX, Memory: partition.NPS1}
	only, several := amd, amd
	only.AvailableCompute = []partition.Compute{partition.SPX}
	several.AvailableCompute = []partition.Compute{partition.SPX, partition.CPX}
	for _, tt := range []struct {
		name    string
		gpu     partition.GPU
		mig     *partition.MIG
		dynamic bool
		want    string
	}{
		{"full", mig, instances("3g.40gb", "3g.40gb"), true, "dynamic has no effect on 0000:1b:00.0: mig leaves no slot"},
		{"full, not dynamic", mig, instances("3g.40gb", "3g.40gb"), false, ""},
		{"room", mig, instances("3g.40gb"), true, ""},
		{"empty", mig, instances(), true, ""},
		{"one mode", only, nil, true, "no other compute mode"},
		{"several modes", several, nil, true, ""},
		{"modes unknown", amd, nil, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := partition.Profile{Name: "x", Groups: []partition.Group{{Rest: true, Dynamic: tt.dynamic, MIG: tt.mig}}}
			if tt.mig == nil {
				p.Groups[0].Compute, p.Memory = partition.SPX, partition.NPS1
			}
			got := strings.Join(NothingToMake(p, []partition.GPU{tt.gpu}), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
