package reservation

import (
	"strings"
	"testing"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
)

// A GPU whose compute mode leases switch is dynamic, but has no instances.
func TestRoomToMake_ComputeMode(t *testing.T) {
	p := partition.Profile{Name: "p", Memory: partition.NPS1, Groups: []partition.Group{{Compute: partition.SPX, Rest: true, Dynamic: true}}}
	gpus := []partition.GPU{{Address: "0000:05:00.0", Vendor: partition.AMD, Compute: partition.SPX, Memory: partition.NPS1}}
	if layout, err := p.Layout(gpus); err != nil || !layout.Dynamic["0000:05:00.0"] {
		t.Fatalf("layout: %+v, %v", layout, err)
	}
	err := RoomToMake([]config.Reservation{{Name: "llm", Unit: "llm.service", Make: "2g.20gb", Source: "dcm.toml:1"}}, p, gpus)
	if err == nil || !strings.Contains(err.Error(), "reservation llm: no GPU of the profile with MIG is dynamic") {
		t.Errorf("got %v, want an error that names the reservation", err)
	}
}

// A reservation without a unit is for another manager, which has no dynamic GPU.
func TestOthersOnDynamic(t *testing.T) {
	p := partition.Profile{Name: "p", Memory: partition.NPS1, Groups: []partition.Group{
		{Compute: partition.CPX, GPUs: []partition.Selector{{Index: 0}}}, {Compute: partition.SPX, Rest: true, Dynamic: true},
	}}
	var gpus []partition.GPU
	for _, a := range []partition.Address{"0000:05:00.0", "0000:26:00.0"} {
		gpus = append(gpus, partition.GPU{Address: a, Vendor: partition.AMD, Compute: partition.SPX, Memory: partition.NPS1})
	}
	for _, tt := range []struct {
		name string
		r    config.Reservation
		want string
	}{
		{"other GPU", config.Reservation{Name: "slurm", GPUs: []partition.Selector{{Index: 0}}}, ""},
		{"service", config.Reservation{Name: "llm", Unit: "llm.service", GPUs: []partition.Selector{{Index: 1}}}, ""},
		{"dynamic GPU", config.Reservation{Name: "slurm", GPUs: []partition.Selector{{Index: 1}}}, "dcm.toml:1: reservation slurm: gpus: 0000:26:00.0 is dynamic"},
		{"any GPU", config.Reservation{Name: "slurm"}, "dcm.toml:1: reservation slurm: gpus: 0000:26:00.0 is dynamic"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.Source, tt.r.Partitions = "dcm.toml:1", 1
			err := OthersOnDynamic([]config.Reservation{tt.r}, p, gpus)
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
