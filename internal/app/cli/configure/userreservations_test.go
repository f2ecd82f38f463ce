package configure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/gpu/partition"
)

func TestUnmetReservations(t *testing.T) {
	gpus := []partition.GPU{{Vendor: partition.AMD, Address: "0000:05:00.0"}}
	got := unmetReservations([]config.UserReservation{
		{User: "alice", GPUs: []partition.Selector{{Index: 0}}, Source: "f:1"},
		{User: "bob", GPUs: []partition.Selector{{Index: 3}}, Source: "f:5"},
	}, gpus, func(user string) bool { return user == "alice" })
	want := []string{
		"f:5: reservation: user: no user bob: at these hours no lease gets the GPUs\nhint: for a user of a directory use its number",
		"f:5: reservation: gpus: there is no GPU with index 3: this node has 1 (0 to 0)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
