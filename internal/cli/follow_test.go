package cli

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/host"
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
