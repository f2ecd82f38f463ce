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

func TestHostLimits_EachLimit(t *testing.T) {
	got := hostLimits()
	for _, want := range []string{"host: load ", "inotify instances free for this user", "MiB of memory available\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

func TestSummary_FailuresForLimits(t *testing.T) {
	var b strings.Builder
	s := newSummary(&b)
	s.add(event{Action: "output", Package: "dcm/a", Test: "TestA", Output: "    a_test.go:7: cannot watch /dev: too many open files\n"})
	s.add(event{Action: "fail", Package: "dcm/a", Test: "TestA"})
	s.add(event{Action: "output", Package: "dcm/a", Test: "TestB", Output: "    a_test.go:9: got 1, want 2\n"})
	s.add(event{Action: "fail", Package: "dcm/a", Test: "TestB"})
	b.Reset()
	s.end()
	if want := "failed at a limit of this host, not necessarily by a defect: 1\n    dcm/a TestA: too many open files\n"; !strings.Contains(b.String(), want) {
		t.Errorf("printed %q, want %q in it", b.String(), want)
	}
}

func TestSummary_TimeFromBoot(t *testing.T) {
	var b strings.Builder
	s := newSummary(&b)
	s.add(event{Action: "output", Package: "dcm/internal/testkit/e2e", Test: "TestNode/flow", Output: "    tiers_test.go:9: from the boot of its container: 12 s\n"})
	s.add(event{Action: "output", Package: "dcm/internal/testkit/e2e", Test: "TestNode/flow", Output: "    machine_test.go:9: processor time in the container: 7.1 s\n"})
	s.add(event{Action: "pass", Package: "dcm/internal/testkit/e2e", Test: "TestNode/flow", Elapsed: 99})
	if want := "pass dcm/internal/testkit/e2e TestNode/flow (99.0s) from the boot of its container: 12 s processor time in the container: 7.1 s\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}

func TestSummary_FirstMessages(t *testing.T) {
	var b strings.Builder
	s := newSummary(&b)
	for _, line := range []string{"    a_test.go:7: got 1, want 2\n", "        of 3\n", "    a_test.go:8: more\n"} {
		s.add(event{Action: "output", Package: "dcm/a", Test: "TestA", Output: line})
	}
	s.add(event{Action: "fail", Package: "dcm/a", Test: "TestA"})
	s.add(event{Action: "output", Package: "dcm/a", Test: "TestB", Output: "    a_test.go:9: processor time\n"})
	s.add(event{Action: "pass", Package: "dcm/a", Test: "TestB"})
	b.Reset()
	s.end()
	if want := "the first message of each failed test:\n    dcm/a TestA: a_test.go:7: got 1, want 2\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("printed %q, want %q at its end", b.String(), want)
	}
}
