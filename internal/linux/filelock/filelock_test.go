package filelock

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"dcm/internal/testkit/testdeadline"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held, err := Held(path); held || err != nil {
		t.Errorf("no file: held %t, %v", held, err)
	}
	release, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := Held(path); !held || err != nil {
		t.Errorf("locked: held %t, %v", held, err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: error %v, want ErrLocked", err)
	}
	waiting := make(chan error)
	go func() {
		release, err := Lock(path)
		if err == nil {
			release()
		}
		waiting <- err
	}()
	release()
	select {
	case err := <-waiting:
		if err != nil {
			t.Errorf("a caller that waited: %v", err)
		}
	case <-testdeadline.After(10 * time.Second):
		t.Fatal("a caller still waits for a free lock")
	}
	if held, err := Held(path); held || err != nil {
		t.Errorf("released: held %t, %v", held, err)
	}
}

func TestLock_MissingDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "lock")
	if release, err := TryLock(path); err == nil || release != nil {
		t.Errorf("error %v, want one", err)
	}
}

func TestLockShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := LockShared(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := LockShared(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []func(){first, second} {
		if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
			t.Errorf("shared: error %v, want ErrLocked", err)
		}
		release()
	}
	release, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	release()
}
