package reservations

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/made"
)

// A unit has the partition of its claim. A claim of a lease, of a unit with its own reservation or with another
// profile does not count, and neither does one whose instance does not exist.
func TestAddMade(t *testing.T) {
	const gpu = "0000:61:00.0"
	h := &host.Host{Root: t.TempDir()}
	for _, n := range []made.Name{
		{Lease: "one.service", GPU: gpu, Profile: "2g.20gb", Start: 0},
		{Lease: "each@a.service", GPU: gpu, Profile: "1g.10gb", Start: 2},
		{Lease: "each@b.service", GPU: gpu, Profile: "1g.10gb", Start: 3},
		{Lease: "each@own.service", GPU: gpu, Profile: "1g.10gb", Start: 4},
		{Lease: "each@old.service", GPU: gpu, Profile: "2g.20gb", Start: 5},
		{Lease: "each@late.service", GPU: gpu, Profile: "1g.10gb", Start: 6},
		{Lease: "dcm-lease-0-568d1da3.scope", GPU: gpu, Profile: "1g.10gb", Start: 5},
	} {
		if err := os.MkdirAll(filepath.Join(h.Path(made.Dir), n.String()), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var parts []runstate.Part
	for slot := range 6 {
		parts = append(parts, runstate.Part{Name: runstate.PartName(gpu, slot), GPU: gpu, Index: slot, Render: "/dev/nvidia-caps/nvidia-cap" + string(rune('0'+slot)), Companions: []string{"/dev/nvidiactl"}})
	}
	all := []runstate.Reservation{
		{Name: "each", Unit: "each@.service", Make: "1g.10gb", Partitions: []string{"gone"}},
		{Name: "each-own", Unit: "each@own.service", Wants: 1, Partitions: []string{"kept"}, Reason: "kept"},
		{Name: "one", Unit: "one.service", Make: "2g.20gb"},
		{Name: "idle", Unit: "idle.service", Make: "2g.20gb"},
	}
	nodes, others, err := Publisher{Host: h}.addMade(all, parts)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"one": {parts[0].Render}, "each:a": {parts[2].Render}, "each:b": {parts[3].Render}}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	var got [][]string
	for _, r := range all {
		got = append(got, r.Partitions)
	}
	if diff := cmp.Diff([][]string{{parts[2].Name, parts[3].Name}, {"kept"}, {parts[0].Name}, {}}, got); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	others["each:a"] = []string{"/dev/fuse"}
	links := companionLinks(parts, nodes, others)
	if diff := cmp.Diff([]string{"/dev/nvidiactl", "/dev/fuse"}, links["each:a.beside"]); diff != "" || len(links) != 3 {
		t.Errorf("companion nodes: got %q", links)
	}
}
