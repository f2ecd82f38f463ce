package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestChanges_Parts(t *testing.T) {
	const mig, amd = "0000:05:00.0", "0000:06:00.0"
	m := &partition.MIG{Instances: []partition.Instance{{Profile: "4g.40gb"}, {Profile: "3g.40gb", Start: 4}}}
	devices := []Device{
		{GPU: partition.GPU{Address: mig, Vendor: partition.NVIDIA, MIG: m}, Parts: []Part{{ID: "a"}, {ID: "b", Start: 4}}},
		{GPU: partition.GPU{Address: amd, Compute: partition.DPX}, Parts: []Part{{ID: "c"}, {ID: "d"}}},
	}
	steps := partition.Steps{
		{Kind: partition.SwitchCompute, GPU: amd, To: "SPX"},
		{Kind: partition.CreateInstances, GPU: mig, MIG: &partition.MIG{}},
	}
	type parts struct{ Changed, Kept []string }
	got := make(map[partition.Address]parts)
	for _, c := range Changes(steps, devices) {
		var p parts
		for _, one := range c.ChangedParts {
			p.Changed = append(p.Changed, one.ID)
		}
		for _, one := range c.KeptParts {
			p.Kept = append(p.Kept, one.ID)
		}
		got[c.GPU] = p
	}
	want := map[partition.Address]parts{mig: {Kept: []string{"a", "b"}}, amd: {Changed: []string{"c", "d"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}
