package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/devguard"
)

func TestAccess(t *testing.T) {
	got, err := access(runstate.GuardTable{
		Table: []runstate.Guarded{
			{Node: "/dev/dri/renderD128", Device: "226:128", Holder: "b", Cgroups: []runstate.Cgroup{{Path: "/b", Number: 9}, {Path: "/a", Number: 7}}},
			{Node: "/dev/dri/renderD128", Device: "226:128", Holder: "a", Cgroups: []runstate.Cgroup{{Path: "/a", Number: 7}}},
			{Node: "/dev/dri/renderD129", Device: "226:129", Holder: "c"},
		},
		All: []runstate.Cgroup{{Path: "/y", Number: 5}, {Path: "/x", Number: 3}},
	})
	want := devguard.Access{
		Devices: map[devguard.Device][]uint64{{Major: 226, Minor: 128}: {7, 9}, {Major: 226, Minor: 129}: nil},
		All:     []uint64{3, 5},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("access (-want +got), %v:\n%s", err, diff)
	}
	if _, err := access(runstate.GuardTable{Table: []runstate.Guarded{{Node: "/dev/kfd", Device: "kfd"}}}); err == nil {
		t.Error("an invalid device number is accepted")
	}
}
