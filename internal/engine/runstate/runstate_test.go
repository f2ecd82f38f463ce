package runstate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dcm/internal/gpu/partition"
)

func run() Run {
	start := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	return Run{
		Version: Version, ID: "0123", Boot: "b", PID: 7, Profile: "cpx", Source: "dcm.toml:7",
		Result: Applied, Started: start, Finished: start.Add(time.Second),
		GPUs: []GPU{{
			Address: "0000:05:00.0", Model: "MI300X",
			Before: partition.Shape{Mode: partition.Mode{Compute: partition.SPX, Memory: partition.NPS1}},
			Want:   partition.Shape{Mode: partition.Mode{Compute: partition.CPX, Memory: partition.NPS4}},
			Now:    partition.Shape{Mode: partition.Mode{Compute: partition.CPX, Memory: partition.NPS4}},
		}},
		Steps: []Step{{
			Step:    partition.Step{Kind: partition.SwitchCompute, GPU: "0000:05:00.0", From: "SPX", To: "CPX"},
			Started: start, Finished: start.Add(time.Millisecond),
		}},
	}
}

func TestWrite_Read(t *testing.T) {
	dir := t.TempDir()
	want := run()
	if err := RunIn(dir).Write(want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, RunFile))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v; want it readable for everyone", info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files are left in the directory, want one", len(left))
	}
}

func TestRead_NoReport(t *testing.T) {
	run, err := ReadRun(t.TempDir())
	if run != nil || err != nil {
		t.Errorf("got %v, %v; want nothing", run, err)
	}
}

func TestRead_InvalidReport(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "unexpected end of JSON input",
		`{"version": 1`:               "unexpected end of JSON input",
		`{"version": 2}`:              "version not supported (found 2, want 1)",
		`{"version": "one"}`:          "cannot unmarshal",
		`[]`:                          "cannot unmarshal",
		`{"version":1,"clients":[7]}`: "cannot unmarshal",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, StateFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := ReadState(dir); s != nil || err != nil {
			t.Errorf("%q: got %v, %v, want none", text, s, err)
		}
		if _, err := StateIn(dir).Read(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), StateFile) {
			t.Errorf("%q: %v; want the file's name and %q", text, err, want)
		}
	}
}

func TestHolders_LimitsText(t *testing.T) {
	var all []Holder
	for i := range 5 {
		all = append(all, Holder{PID: i + 1, Command: "python3", Devices: []string{"/dev/kfd"}})
	}
	all[0].Unit = "session-1.scope"
	got := InUse(all)
	want := &Error{
		Text: "GPUs are in use: python3 (pid 1, session-1.scope) has /dev/kfd open; python3 (pid 2, no unit) has /dev/kfd open; " +
			"python3 (pid 3, no unit) has /dev/kfd open; 2 more (dcm holders lists them)",
		Hint:      got.Hint,
		Transient: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// FuzzRead: whatever is in the file, reading it ends in a report of this version
// or in an error, and a report that was read can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version":1,"result":"applied","gpus":[{"address":"0000:05:00.0"}],"started":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"version":1,"gpus":[]}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, RunFile)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		first, err := ReadRun(dir)
		if err != nil || first == nil {
			return
		}
		if first.Version != Version {
			t.Fatalf("version %d was accepted", first.Version)
		}
		if err := RunIn(dir).Write(*first); err != nil {
			return // a year that JSON cannot hold, say
		}
		again, err := ReadRun(dir)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		// An empty list says what none says, and is written down as none.
		if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("reading it again gives another report:\n%s", diff)
		}
	})
}
