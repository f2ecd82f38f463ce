package runstate_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

func TestWithheld(t *testing.T) {
	type clients = map[string][]partition.Address
	w := runstate.WithheldIn(t.TempDir())
	is := func(when string, want clients) {
		t.Helper()
		got, err := w.Read()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", when, err, diff)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	is("before", clients{})
	do(w.Clear())
	do(w.Keep(func(string, partition.Address) bool { return true }))
	do(w.Add(nil))
	is("none added", clients{})
	do(w.Add(clients{"a.service": {"3"}, `b\x2d@1.service`: {"4"}, "all.service": {"3", "4"}}))
	do(w.Add(clients{"a.service": {"5", "3"}}))
	is("added", clients{"a.service": {"3", "5"}, `b\x2d@1.service`: {"4"}, "all.service": {"3", "4"}})
	if err := os.WriteFile(filepath.Join(w.Dir, "cut.service"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	do(w.Keep(func(unit string, a partition.Address) bool { return a == "5" || unit == "all.service" && a == "4" }))
	is("released", clients{"a.service": {"5"}, "all.service": {"4"}, "cut.service": nil})
	do(w.Clear())
	is("cleared", clients{})
}

// After a kill of the daemon, the next one reads while the run of the first releases clients.
func TestWithheld_ReadWhileReleased(t *testing.T) {
	w := runstate.WithheldIn(t.TempDir())
	ended := make(chan error)
	go func() {
		var err error
		for range 300 {
			err = errors.Join(err, w.Add(map[string][]partition.Address{"a.service": {"0000:05:00.0"}, "b.service": {"0000:26:00.0"}}), w.Clear())
		}
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if _, err := w.Read(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
