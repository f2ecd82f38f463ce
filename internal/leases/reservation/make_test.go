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
