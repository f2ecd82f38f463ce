package runstate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/gpu/partition"
)

func TestNoRoomSince(t *testing.T) {
	const a, b partition.Address = "0000:05:00.0", "0000:26:00.0"
	one := partition.Shape{MIG: &partition.MIG{Instances: []partition.Instance{{Profile: "3g.40gb", Start: 4}}}}
	file := RunIn(t.TempDir())
	if err := file.Write(Run{Version: Version, Boot: "this", NoRoom: map[partition.Address]partition.Shape{a: one, b: one}, GPUs: []GPU{{Address: a, Now: one}, {Address: b}}}); err != nil {
		t.Fatal(err)
	}
	last, err := file.Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[partition.Address]partition.Shape{b: one}, NoRoomSince(last, "this")); diff != "" {
		t.Errorf("GPUs without room (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		last *Run
		boot string
	}{{last, "another"}, {nil, "this"}} {
		if got := NoRoomSince(test.last, test.boot); len(got) > 0 {
			t.Errorf("boot %s: %v, want none", test.boot, got)
		}
	}
}
