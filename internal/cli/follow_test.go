package cli

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/report"
)

// What was selected is followed without its steps, where nothing can be watched.
func TestARunThatCannotBeWatchedIsMade(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	// No descriptor is free, as when the kernel gives no more of inotify's.
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	made := false
	err := watchRun(t.Context(), &host.Host{Root: "/nowhere"}, &Console{out: &told, err: &told}, func() error {
		made = true
		return nil
	}, func(*progress, error) error { return nil })
	if back := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); back != nil {
		t.Fatal(back)
	}
	if err != nil || !made || !strings.Contains(told.String(), "the steps are not shown: ") {
		t.Errorf("made %t, %v, told %q", made, err, &told)
	}
}

// A command exits with 75 if dcm goes on by itself.
func TestFailure_ExitStatus(t *testing.T) {
	later := &report.Error{Text: "dcm-reserve.service failed", Transient: true}
	for _, tt := range []struct {
		name  string
		state report.State
		want  int
	}{
		{"busy", report.State{Phase: report.Waiting, Error: later}, exit.Transient},
		{"partitions are chosen again", report.State{Phase: report.InSync, Error: later}, exit.Transient},
		{"a client is not back", report.State{Phase: report.InSync, Error: &report.Error{Text: "not back"}}, exit.Failed},
		{"for good", report.State{Phase: report.Stuck, Error: &report.Error{Text: "no such mode"}}, exit.Failed},
		{"the configuration", report.State{Phase: report.Stuck, Config: "dcm.toml:3: bad"}, exit.Config},
	} {
		if got := exit.Code(failure(&tt.state)); got != tt.want {
			t.Errorf("%s: exit status %d, want %d", tt.name, got, tt.want)
		}
	}
}
