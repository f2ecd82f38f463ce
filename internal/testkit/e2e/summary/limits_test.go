package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInotifyInstances_OfThisUser(t *testing.T) {
	dir := t.TempDir()
	for process, targets := range map[string][]string{"1": {"anon_inode:inotify", "/dev/null"}, "22": {"anon_inode:inotify"}, "self": {"anon_inode:inotify"}} {
		fds := filepath.Join(dir, process, "fd")
		if err := os.MkdirAll(fds, 0o755); err != nil {
			t.Fatal(err)
		}
		for i, target := range targets {
			if err := os.Symlink(target, filepath.Join(fds, string(rune('0'+i)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := inotifyInstances(dir); got != 2 {
		t.Errorf("instances: got %d, want 2", got)
	}
}

func TestMemoryAvailable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meminfo")
	if err := os.WriteFile(file, []byte("MemTotal:       24000000 kB\nMemAvailable:    2097152 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := memoryAvailable(file); got != 2048 {
		t.Errorf("available: got %d MiB, want 2048", got)
	}
}

func TestHostLimits_HasLoad(t *testing.T) {
	if got := hostLimits(); !strings.HasPrefix(got, "load: ") {
		t.Errorf("got %q, want the load first", got)
	}
}

func TestSummary_TimeFromBoot(t *testing.T) {
	var b strings.Builder
	s := newSummary(&b)
	s.add(event{Action: "output", Package: "dcm/internal/testkit/e2e", Test: "TestNode/flow", Output: "    tiers_test.go:9: from the boot of its container: 12 s\n"})
	s.add(event{Action: "pass", Package: "dcm/internal/testkit/e2e", Test: "TestNode/flow", Elapsed: 99})
	if want := "pass dcm/internal/testkit/e2e TestNode/flow (99.0s) from the boot of its container: 12 s\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}
