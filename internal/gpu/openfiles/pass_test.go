package openfiles

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// crowded gives a process that many open files more.
func crowded(t *testing.T, proc, pid string, files int) {
	t.Helper()
	for i := range files {
		must(t, os.Symlink("/", filepath.Join(proc, pid, "fd", fmt.Sprint(100+i))))
	}
}

func TestScan_ManyFilesLast(t *testing.T) {
	proc, nodes := tree(t)
	crowded(t, proc, "90", 500)
	s := NewScan(proc, nodes, time.Minute)
	if many := s.scan(t.Context(), []int{90, 91}, smallChunk); len(many) != 1 || many[0] != 90 || len(s.found[90]) != 0 || len(s.found[91]) != 1 {
		t.Errorf("put off %v, found %v", many, s.found)
	}
	s = NewScan(proc, nodes, time.Minute)
	must(t, s.ScanAll(t.Context()))
	if len(s.found[90]) != 1 || len(s.found[91]) != 1 || len(s.Uninspected()) > 0 {
		t.Errorf("found %v, unlooked %v", s.found, s.Uninspected())
	}
}

func TestScan_Timeout(t *testing.T) {
	proc, nodes := tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := NewScan(proc, nodes, time.Minute)
	must(t, s.ScanAll(ctx))
	if got := s.Uninspected(); len(got) != 2 || got[0].Reason != reasonTimeout || got[1].Reason != reasonTimeout {
		t.Errorf("unlooked %v", got)
	}
}

// A process whose open files hang does not delay the scan of the others.
func TestScan_HangingWorkerReplaced(t *testing.T) {
	r := &pass{Scan: NewScan("", nil, time.Minute), ctx: t.Context(), queue: []int{3}, done: make(chan struct{}),
		running: map[int]time.Time{1: time.Now().Add(-time.Hour), 2: time.Now()}}
	r.Scan.proc = t.TempDir() // 3 has ended
	r.abandonHung()
	if !r.record(result{pid: 2}) || r.record(result{pid: 1, reason: reasonDenied}) {
		t.Error("only what was not given up is taken")
	}
	<-r.done
	if got := fmt.Sprint(r.skipped); got != fmt.Sprintf("map[1:%s]", reasonHung) {
		t.Errorf("unlooked %s", got)
	}
}
