package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/runstate"
)

// In a container, a service with its own /proc reads another boot id than a command. The daemon still
// takes the note of the command, once.
func TestNotes_OtherBootID(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	path := h.Path("proc/sys/kernel/random/boot_id")
	for _, dir := range []string{filepath.Dir(path), h.Runtime()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	boot := func(id string) {
		if err := os.WriteFile(path, []byte(id), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	boot("a58c6d56-9c19-4cb3-be0e-ec31e3285596\n")
	asked := h.Asked([]string{"dcm", "apply", "--rolling"})
	note, err := h.Note(asked, &runstate.Selection{Profile: "pair", Rolling: true})
	if err != nil {
		t.Fatal(err)
	}
	boot("b744cf2f-4dd4-4d58-9be7-1930b8b4c1e8\n")
	read := func(what string, want ...runstate.Note) {
		t.Helper()
		got, err := h.Notes()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", what, err, diff)
		}
	}
	note.Time = note.Time.Round(0) // without the monotonic clock
	note.Version = runstate.Version
	read("after the note", note)
	read("the second time", note)
	if err := h.Forget(note); err != nil {
		t.Fatal(err)
	}
	read("after its removal")
}

// A note expires if the command has ended. One that still runs may wait for the start of the daemon.
func TestNotes_Expire(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Path("proc/7"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	var want []runstate.Note
	for _, tt := range []struct {
		pid  int
		age  time.Duration
		kept bool
	}{{7, 2 * time.Hour, true}, {8, 2 * time.Hour, false}, {9, time.Second, true}} {
		n := runstate.Note{Version: runstate.Version, Time: time.Now().Add(-tt.age).Round(0), Asked: runstate.Asked{Why: "dcm apply", Who: &runstate.Who{PID: tt.pid}}}
		if err := runstate.AskedIn(h.Runtime(), n).Write(n); err != nil {
			t.Fatal(err)
		}
		if tt.kept {
			want = append(want, n)
		}
	}
	got, err := h.Notes()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if files := runstate.AllAsked(h.Runtime()); len(files) != len(want) {
		t.Errorf("%d files are left, want %d", len(files), len(want))
	}
}
