package gpu

import (
	"testing"

	"dcm/internal/gpu/partition"
)

// A claim exists before the change and after its end: a mode that was read counts as one of leases if it
// was claimed at either time.
func TestSetMade_ReadDuringChange(t *testing.T) {
	const gpu = "0000:05:00.0"
	cpx := partition.Made{MadeMode: partition.MadeMode{Compute: partition.CPX, Rest: partition.SPX}}
	dpx := partition.Made{MadeMode: partition.MadeMode{Compute: partition.DPX, Rest: partition.SPX}}
	for _, tt := range []struct {
		name          string
		read          partition.Compute
		before, after partition.Made
		made          bool
	}{
		{"no claim", partition.CPX, partition.Made{}, partition.Made{}, false},
		{"claimed", partition.CPX, cpx, cpx, true},
		{"switched before the GPU was read", partition.CPX, partition.Made{}, cpx, true},
		{"switched after the GPU was read", partition.SPX, partition.Made{}, cpx, false},
		{"switched back after the GPU was read", partition.CPX, cpx, partition.Made{}, true},
		{"another mode afterwards", partition.CPX, cpx, dpx, true},
		{"another mode before", partition.DPX, cpx, dpx, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &Function{}
			f.Address, f.Compute = gpu, tt.read
			setMade([]*Function{f}, map[partition.Address]partition.Made{gpu: tt.before}, map[partition.Address]partition.Made{gpu: tt.after})
			if f.HasMadeMode() != tt.made {
				t.Errorf("made mode: got %t with %+v, want %t", f.HasMadeMode(), f.MadeMode, tt.made)
			}
		})
	}
	one := partition.Instance{Profile: "3g.40gb", Start: 4}
	f := &Function{}
	f.Address = gpu
	setMade([]*Function{f}, map[partition.Address]partition.Made{gpu: {Instances: []partition.Instance{one}}}, nil)
	if len(f.Made) != 1 || f.Made[0].Profile != one.Profile || f.Made[0].Start != one.Start {
		t.Errorf("instances: got %+v, want %+v", f.Made, one)
	}
}
