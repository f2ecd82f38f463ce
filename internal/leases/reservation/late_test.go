package reservation

import (
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
)

// A reservation has partitions of a dynamic GPU only if the other GPUs do not suffice, or if it names that GPU.
func TestBlockDynamic(t *testing.T) {
	p := partition.Profile{Name: "p", Memory: partition.NPS1, Groups: []partition.Group{
		{Compute: partition.SPX, GPUs: []partition.Selector{{Index: 0}}, Dynamic: true}, {Compute: partition.SPX, Rest: true},
	}}
	var gpus []partition.GPU
	for _, a := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		gpus = append(gpus, partition.GPU{Address: a, Vendor: partition.AMD, Compute: partition.SPX, Memory: partition.NPS1, XCC: 8})
	}
	for _, tt := range []struct {
		name       string
		partitions int
		gpus       []partition.Selector
		warns      bool
	}{
		{"one of two", 1, nil, false},
		{"both", 2, nil, true},
		{"the dynamic GPU", 1, []partition.Selector{{Index: 0}}, true},
		{"the other GPU", 1, []partition.Selector{{Index: 1}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := config.Reservation{Name: "llm", Unit: "llm.service", Partitions: tt.partitions, GPUs: tt.gpus, Source: "dcm.toml:1"}
			got := BlockDynamic([]config.Reservation{r}, p, gpus, gpus)
			if len(got) > 0 != tt.warns || tt.warns && !strings.HasPrefix(got[0], "dcm.toml:1: reservation llm: 0000:05:00.0 is dynamic, and 'dcm run --make'") {
				t.Errorf("warnings: got %q, want some %t", got, tt.warns)
			}
		})
	}
}
