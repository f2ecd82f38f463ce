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

func TestWhoHasManyOpenFilesIsLookedAtBehindTheOthers(t *testing.T) {
	proc, nodes := tree(t)
	crowded(t, proc, "90", 500)
	s := New(proc, nodes, time.Minute)
	if many := s.scan(t.Context(), []int{90, 91}, few); len(many) != 1 || many[0] != 90 || len(s.found[90]) != 0 || len(s.found[91]) != 1 {
		t.Errorf("put off %v, found %v", many, s.found)
	}
	s = New(proc, nodes, time.Minute)
	must(t, s.All(t.Context()))
	if len(s.found[90]) != 1 || len(s.found[91]) != 1 || len(s.Unlooked()) > 0 {
		t.Errorf("found %v, unlooked %v", s.found, s.Unlooked())
	}
}

func TestThoseThereWasNoTimeForAreNamed(t *testing.T) {
	proc, nodes := tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := New(proc, nodes, time.Minute)
	must(t, s.All(ctx))
	if got := s.Unlooked(); len(got) != 2 || got[0].Why != notInTime || got[1].Why != notInTime {
		t.Errorf("unlooked %v", got)
	}
}

// Somebody whose open files do not answer keeps nobody else from being looked at.
func TestALookThatHangsIsGivenUpAndAnotherOneHasItsPlace(t *testing.T) {
	r := &pass{Scan: New("", nil, time.Minute), ctx: t.Context(), left: []int{3}, over: make(chan struct{}),
		running: map[int]time.Time{1: time.Now().Add(-time.Hour), 2: time.Now()}}
	r.Scan.proc = t.TempDir() // 3 has ended
	r.abandon()
	if !r.take(look{pid: 2}) || r.take(look{pid: 1, why: notAllowed}) {
		t.Error("only what was not given up is taken")
	}
	<-r.over
	if got := fmt.Sprint(r.unlooked); got != fmt.Sprintf("map[1:%s]", noAnswer) {
		t.Errorf("unlooked %s", got)
	}
}
