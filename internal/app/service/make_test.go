package service

import (
	"errors"
	"os"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/linux/filelock"
)

// One instance is created or destroyed at a time, and none during a run.
func TestLockToMake_OneAtATime(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := lockToMake(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.TryLock(h.Locks().Make()); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("second create: got %v, want %v", err, filelock.ErrLocked)
	}
	ended := make(chan func(), 1)
	go func() {
		run, err := lockForRun(h)
		if err != nil {
			t.Error(err)
		}
		ended <- run
	}()
	select {
	case <-ended:
		t.Fatal("a run starts while an instance is created")
	default:
	}
	release()
	run := <-ended
	if _, err := filelock.TryLock(h.Locks().Make()); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("create during a run: got %v, want %v", err, filelock.ErrLocked)
	}
	run()
}
