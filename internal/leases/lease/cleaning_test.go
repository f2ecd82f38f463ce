package lease

import (
	"slices"
	"testing"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
)

// Partitions whose cleaning failed are taken last, and as few as possible of them.
func TestCleaning_FailedLast(t *testing.T) {
	const a, b = partition.Address("0000:05:00.0"), partition.Address("0000:0c:00.0")
	var node []runstate.Part
	for i := range 4 {
		gpu := a
		if i > 1 {
			gpu = b
		}
		node = append(node, runstate.Part{Name: runstate.PartName(gpu, i%2), GPU: gpu, Index: i % 2, Kind: "amd DPX/NPS1"})
	}
	c := Cleaning{GPUs: map[partition.Address]bool{a: true}, Failed: map[string]bool{node[0].Name: true, node[1].Name: true}}
	for _, tt := range []struct {
		name   string
		want   placement.Want
		taken  map[string]bool
		failed int // number of partitions whose cleaning failed in the choice, -1: no choice
	}{
		{"one", placement.Want{Partitions: 1}, nil, 0},
		{"all clean ones", placement.Want{Partitions: 2}, nil, 0},
		{"one more", placement.Want{Partitions: 3}, nil, 1},
		{"all", placement.Want{Partitions: 4}, nil, 2},
		{"no clean one is free", placement.Want{Partitions: 1}, map[string]bool{node[2].Name: true, node[3].Name: true}, 1},
		{"a whole GPU", placement.Want{GPUs: 1}, nil, 0},
		{"the other one", placement.Want{GPUs: 1}, map[string]bool{node[3].Name: true}, 2},
		{"too many", placement.Want{Partitions: 5}, nil, -1},
	} {
		if tt.taken == nil {
			tt.taken = map[string]bool{}
		}
		choice, err := c.choose(node, tt.taken, tt.want)
		got := len(c.notes(choice.Partitions))
		if err != nil {
			got = -1
		}
		if got != tt.failed {
			t.Errorf("%s: %d partitions of %+v (%v), want %d", tt.name, got, choice.Partitions, err, tt.failed)
		}
	}
	if got, want := c.units(node[1:3]), []string{"dcm-clean@0000:05:00.0-1.service"}; !slices.Equal(got, want) {
		t.Errorf("units %q, want %q", got, want)
	}
}
