package watch

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/testkit/testdeadline"
)

// exhaustible is a kernel that may have no inotify instances left.
type exhaustible struct{ none atomic.Bool }

func (e *exhaustible) limit() error {
	if e.none.Load() {
		return os.NewSyscallError("inotify_init1", unix.EMFILE)
	}
	return nil
}

func TestPoll_FilesWithoutAnInstance(t *testing.T) {
	e := new(exhaustible)
	e.none.Store(true)
	s := &Set{Poll: true, every: 5 * time.Millisecond, limit: e.limit}
	dir := t.TempDir()
	file := filepath.Join(dir, "dcm.toml")
	ch, err := s.Files(t.Context(), []string{dir}, time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range ch {
		}
	})
	if why := s.Polling(); why == nil || !strings.Contains(why.Error(), "fs.inotify.max_user_instances") {
		t.Errorf("polls because of %v, want the name of the sysctl", why)
	}
	for _, change := range []func() error{
		func() error { return os.WriteFile(file, []byte("a"), 0o644) },
		func() error { return os.WriteFile(file, []byte("ab"), 0o644) },
		func() error { return os.Chmod(file, 0o600) },
		func() error { return os.Symlink("/nonexistent", filepath.Join(dir, "link")) },
		func() error { return os.Remove(file) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		wait(t, ch)
	}
	e.none.Store(false)
	wait(t, ch) // the switch to inotify
	if why := s.Polling(); why != nil {
		t.Errorf("with an instance it polls: %v", why)
	}
	e.none.Store(true)
	if err := os.WriteFile(file, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	wait(t, ch)
}

func TestPoll_Unchanged(t *testing.T) {
	polls := make(chan struct{}, 100)
	s := &Set{Poll: true, every: time.Millisecond, limit: func() error { offer(polls); return unix.EMFILE }}
	ch, err := s.Files(t.Context(), []string{t.TempDir()}, time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		<-polls
	}
	select {
	case <-ch:
		t.Error("a signal without a change")
	default:
	}
}

func TestPoll_WritesWithoutAnInstance(t *testing.T) {
	newKernel(t)
	e := new(exhaustible)
	e.none.Store(true)
	file := filepath.Join(t.TempDir(), "current_compute_partition")
	if err := os.WriteFile(file, []byte("SPX\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &Set{Poll: true, every: 5 * time.Millisecond, limit: e.limit}
	in := Interest{About: func(Uevent) bool { return false }, Files: func() []string { return []string{file} }}
	ch, err := s.Devices(t.Context(), in, time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range ch {
		}
	})
	wait(t, ch)
	wait(t, ch) // each poll signals, because sysfs has no time of the last write
	e.none.Store(false)
	for deadline := testdeadline.After(10 * time.Second); s.Polling() != nil; {
		select {
		case <-ch:
		case <-deadline:
			t.Fatal("the watch still polls although inotify is available")
		}
	}
	for range 3 { // at most two signals are of the last poll and of the switch
		if err := os.WriteFile(file, []byte("CPX\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		wait(t, ch)
	}
}

// A set without polling, as a command has, returns an error with the name of the kernel's limit.
func TestPoll_Off(t *testing.T) {
	limits := map[error]string{unix.EMFILE: "fs.inotify.max_user_instances", unix.ENOSPC: "fs.inotify.max_user_watches"}
	for errno, sysctl := range limits {
		s := &Set{limit: func() error { return errno }}
		_, err := s.Files(t.Context(), []string{t.TempDir()}, time.Millisecond, slog.New(slog.DiscardHandler))
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), sysctl) {
			t.Errorf("error %v, want %v with %s", err, errno, sysctl)
		}
	}
	s := &Set{Poll: true, limit: func() error { return unix.EACCES }}
	if _, err := s.Files(t.Context(), []string{t.TempDir()}, time.Millisecond, slog.New(slog.DiscardHandler)); !errors.Is(err, unix.EACCES) {
		t.Errorf("error %v, want EACCES", err)
	}
}
