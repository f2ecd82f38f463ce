package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestChangedSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if !changedSince(file, startedIn(t, -time.Minute)) {
		t.Error("a new file is older than a process of the last minute")
	}
	if changedSince(file, startedIn(t, time.Minute)) {
		t.Error("a file is newer than a process that has started later")
	}
	if changedSince(file+"-missing", "/proc/self") || changedSince(file, "/proc/none") {
		t.Error("a missing file or process is compared")
	}
}

// startedIn returns a directory as in /proc of a process that starts in d from now.
func startedIn(t *testing.T, d time.Duration) string {
	t.Helper()
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ticks := (time.Duration(up.Nano()) + d) / (10 * time.Millisecond)
	stat := fmt.Sprintf("7 (program) S%s %d 0\n", strings.Repeat(" 0", 18), ticks)
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
