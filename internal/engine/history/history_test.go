package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

func run(n int, result runstate.Result) runstate.Run {
	r := runstate.Run{
		ID: fmt.Sprint(n), Boot: "b", Profile: "cpx", Result: result, Started: time.Unix(int64(n), 0).UTC(),
		Asked: runstate.Asked{Why: "dcm use cpx", Who: &runstate.Who{UID: 0, User: "root", Sudo: "alice"}},
	}
	if result != runstate.Running {
		r.Finished = r.Started.Add(time.Second)
		r.GPUs = []runstate.GPU{{Before: partition.Shape{Mode: partition.Mode{Compute: "SPX"}}, Now: partition.Shape{Mode: partition.Mode{Compute: "CPX"}}},
			{Before: partition.Shape{MIG: new(partition.MIG)}, Now: partition.Shape{MIG: new(partition.MIG)}}}
	}
	return r
}

func add2(t *testing.T, path string, runs ...runstate.Run) {
	t.Helper()
	for _, r := range runs {
		if err := Append(path, Of(r)); err != nil {
			t.Fatal(err)
		}
	}
}

func runs(t *testing.T, path string, underWay bool) string {
	t.Helper()
	all, err := Read(path, underWay)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		out = append(out, e.ID+" "+string(e.Result))
	}
	return strings.Join(out, ", ")
}

func TestAdd_OneEntryPerRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	if got := runs(t, path, false); got != "" {
		t.Errorf("without a file: %s", got)
	}
	add2(t, path, run(1, runstate.Running), run(1, runstate.Applied), run(2, runstate.Running), run(3, runstate.Running))
	if got := runs(t, path, true); got != "1 applied, 2 killed, 3 running" {
		t.Errorf("during a run: %s", got)
	}
	if got := runs(t, path, false); got != "1 applied, 2 killed, 3 killed" {
		t.Errorf("at rest: %s", got)
	}
	all, err := Read(path, false)
	if err != nil {
		t.Fatal(err)
	}
	want := Entry{
		ID: "1", Boot: "b", Profile: "cpx", Result: runstate.Applied, Started: time.Unix(1, 0).UTC(), Finished: time.Unix(2, 0).UTC(),
		Asked: runstate.Asked{Why: "dcm use cpx", Who: &runstate.Who{User: "root", Sudo: "alice"}}, Changed: 1, GPUs: 2,
	}
	if diff := cmp.Diff(want, all[0]); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if got, want := all[0].Asked.String(), "dcm use cpx, by root (sudo of alice)"; got != want {
		t.Errorf("asked for by %q, want %q", got, want)
	}
}

// A power cut leaves half a line, or a block of zeros.
func TestRead_IncompleteEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	add2(t, path, run(1, runstate.Applied))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range []string{`{"id":"2","boo`, "\x00\x00\x00", "{}", strings.Repeat("x", 100)} {
		if err := os.WriteFile(path, append(text, rest...), 0o644); err != nil {
			t.Fatal(err)
		}
		add2(t, path, run(3, runstate.Applied))
		if got := runs(t, path, false); got != "1 applied, 3 applied" {
			t.Errorf("after %q: %s", rest, got)
		}
	}
}

func TestAdd_LimitsFileSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	for n := range 1500 {
		add2(t, path, run(n+1, runstate.Running), run(n+1, runstate.Applied))
	}
	all, err := Read(path, false)
	if err != nil || len(all) != Most || all[Most-1].ID != "1500" {
		t.Errorf("%d runs, %v", len(all), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxSize+2<<10 || info.Mode().Perm() != 0o644 {
		t.Errorf("%d bytes, mode %v, %v", info.Size(), info.Mode(), err)
	}
}
