package runstate_test

import (
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// A MIG GPU that was read again has changed only if its instances are others.
func TestGPU_Changed(t *testing.T) {
	mig := func(profile string, start int) partition.Shape {
		return partition.Shape{MIG: &partition.MIG{Instances: []partition.Instance{{Profile: profile, Start: start}}}}
	}
	spx, cpx := partition.Shape{Mode: partition.Mode{Compute: "SPX"}}, partition.Shape{Mode: partition.Mode{Compute: "CPX"}}
	for _, tt := range []struct {
		before, now partition.Shape
		want        bool
	}{
		{spx, spx, false}, {spx, cpx, true}, {mig("3g.40gb", 0), mig("3g.40gb", 0), false}, {mig("3g.40gb", 0), mig("3g.40gb", 4), true}, {mig("3g.40gb", 0), mig("1g.10gb", 0), true},
	} {
		if got := (runstate.GPU{Before: tt.before, Now: tt.now}).Changed(); got != tt.want {
			t.Errorf("%s to %s: changed %t, want %t", tt.before, tt.now, got, tt.want)
		}
	}
}
