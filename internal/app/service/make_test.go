package service

import (
	"errors"
	"os"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/gpu/made"
	"dcm/internal/linux/filelock"
)

// One instance is created or destroyed at a time, and none during a run.
func TestLockToMake_OneAtATime(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	release, err := lockToMake(h, filelock.Lock)
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

// Instances change concurrently, but not together with modes or a run.
func TestLockToMake_Shared(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	instance := lockFor(made.Name{Profile: "1g.10gb"})
	for range 2 {
		release, err := lockToMake(h, instance)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	if _, err := lockToMake(h, filelock.TryLock); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("a mode during changes of instances: got %v, want %v", err, filelock.ErrLocked)
	}
}
