package watch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxQuietTimes limits the delay of a signal by continuous changes, as a multiple of the quiet time.
const maxQuietTimes = 10

// Files signals changes in the directories: an entry is written, created, renamed, removed or
// replaced, permissions change, or a file that an entry links to is written. It also signals if a
// directory, or a symbolic link on its path, is created, removed or replaced. If a directory does not
// exist, it watches the nearest existing parent.
//
// It signals when nothing has changed for the quiet time, or ten quiet times after the first change.
// At most one signal is pending. Read the files after Files has returned, since it does not signal
// earlier changes. The channel is closed after ctx has ended and all watches are removed. While
// nothing changes, no timer runs, unless the set polls, see [Set.Poll].
func (s *Set) Files(ctx context.Context, dirs []string, quiet time.Duration, log *slog.Logger) (<-chan struct{}, error) {
	return s.FilesWithin(ctx, dirs, quiet, 0, log)
}

// Files is [Set.Files] of a new set.
func Files(ctx context.Context, dirs []string, quiet time.Duration, log *slog.Logger) (<-chan struct{}, error) {
	return new(Set).Files(ctx, dirs, quiet, log)
}

// FilesWithin is Files with another limit on the delay by continuous changes. bound is 0 for ten quiet
// times.
func (s *Set) FilesWithin(ctx context.Context, dirs []string, quiet, bound time.Duration, log *slog.Logger) (<-chan struct{}, error) {
	out := make(chan struct{}, 1)
	run := func(t *tracker) {
		t.run(ctx, debounce{quiet: quiet, bound: bound}, out)
		s.end()
		letGo(t.watcher)
	}
	t, err := s.tracker(dirs, log)
	switch {
	case err == nil:
		s.join(t.end)
		go func() {
			defer close(out)
			run(t)
		}()
	case s.mayPoll(err):
		s.beginPolling(err)
		before := fingerprint(dirs)
		go func() {
			defer close(out)
			if t := s.pollFiles(ctx, dirs, before, log, out); t != nil {
				run(t)
			}
		}()
	default:
		return nil, err
	}
	return out, nil
}

// pollFiles polls until the directories can be watched. It returns nil if ctx ends before that.
func (s *Set) pollFiles(ctx context.Context, dirs []string, before string, log *slog.Logger, out chan<- struct{}) (t *tracker) {
	begun := s.polled(ctx, func() (err error) {
		t, err = s.tracker(dirs, log)
		return err
	}, func() {
		if now := fingerprint(dirs); now != before {
			before = now
			offer(out)
		}
	})
	if !begun {
		return nil
	}
	s.join(t.end)
	offer(out) // for changes since the last poll
	return t
}

func (s *Set) tracker(dirs []string, log *slog.Logger) (*tracker, error) {
	if err := s.allowed(); err != nil {
		return nil, fmt.Errorf("cannot watch files: %w", limited(err))
	}
	return newTracker(dirs, log)
}

func newTracker(dirs []string, log *slog.Logger) (*tracker, error) {
	t := &tracker{now: newScope(nil), log: log}
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("cannot watch %s: %w", dir, err)
		}
		t.wanted = append(t.wanted, abs)
	}
	var err error
	if t.watcher, err = fsnotify.NewWatcher(); err != nil {
		return nil, fmt.Errorf("cannot watch files: %w", limited(err))
	}
	if _, err := t.refresh(); err != nil {
		t.watcher.Close()
		return nil, limited(err)
	}
	return t, nil
}

func (t *tracker) run(ctx context.Context, d debounce, out chan<- struct{}) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		var changed bool
		select {
		case <-ctx.Done():
			return
		case ev := <-t.watcher.Events:
			changed = t.event(ev)
		case err := <-t.watcher.Errors:
			// Probably the kernel's queue has overflowed (IN_Q_OVERFLOW). Events may be lost.
			t.log.Warn("file changes were lost, reading the directories again", "err", err)
			t.again()
			changed = true
		case <-timer.C:
			d.done()
			select {
			case out <- struct{}{}:
			default: // a signal is pending
			}
		}
		if changed {
			timer.Reset(d.change(time.Now()))
		}
	}
}

// debounce computes the time from a change to its signal.
type debounce struct {
	quiet time.Duration
	bound time.Duration // 0: maxQuietTimes times quiet
	limit time.Time     // the latest time of the signal of pending changes; zero if there are none
}

// change returns the delay of the signal after a change at now.
func (d *debounce) change(now time.Time) time.Duration {
	if d.limit.IsZero() {
		d.limit = now.Add(cmp.Or(d.bound, maxQuietTimes*d.quiet))
	}
	return max(0, min(d.quiet, d.limit.Sub(now)))
}

func (d *debounce) done() { d.limit = time.Time{} }
