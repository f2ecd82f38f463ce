package service

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// A run releases the clients of the GPUs that have the profile, and keeps those of others.
func TestReleaseAfter(t *testing.T) {
	type clients = map[string][]partition.Address
	spx, cpx := partition.Shape{Mode: partition.Mode{Compute: "SPX"}}, partition.Shape{Mode: partition.Mode{Compute: "CPX"}}
	good := runstate.GPU{Address: "4", Now: cpx, Want: cpx}
	before := clients{"w4": {"4"}, "w5": {"5"}, "all": {"4", "5"}}
	for _, tt := range []struct {
		name string
		run  runstate.Run
		want clients
	}{
		{"success", runstate.Run{Result: runstate.Applied}, clients{}},
		{"no profile", runstate.Run{Result: runstate.NoProfile}, clients{}},
		{"one GPU was undone", runstate.Run{Result: runstate.Partial, GPUs: []runstate.GPU{good, {Address: "5", Now: spx, Want: cpx}}}, clients{"w5": {"5"}, "all": {"5"}}},
		{"a round", runstate.Run{Result: runstate.Round, GPUs: []runstate.GPU{good, {Address: "5", Now: cpx, Want: cpx}, {Address: "6", Now: spx, Want: cpx}}}, clients{}},
		{"an error although the mode is right", runstate.Run{Result: runstate.Failed, GPUs: []runstate.GPU{good, {Address: "5", Now: cpx, Want: cpx, Error: "lost"}}}, clients{"w5": {"5"}, "all": {"5"}}},
		{"the profile leaves the GPU", runstate.Run{Result: runstate.Partial, GPUs: []runstate.GPU{good, {Address: "5", Now: spx, Want: spx, Skipped: true}}}, clients{}},
		{"the GPU is gone", runstate.Run{Result: runstate.Failed, GPUs: []runstate.GPU{good}}, clients{"w5": {"5"}, "all": {"5"}}},
		{"refused before the GPUs were read", runstate.Run{Result: runstate.Refused}, before},
	} {
		h := &host.Host{Root: t.TempDir()}
		w := runstate.WithheldIn(h.Runtime())
		if err := w.Add(before); err != nil {
			t.Fatal(err)
		}
		if err := releaseAfter(h, tt.run); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		got, err := w.Read()
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, withheld (-want +got):\n%s", tt.name, err, diff)
		}
	}
}
