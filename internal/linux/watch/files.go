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

// patience is how many quiet times a stream of changes may put off the signal.
const patience = 10

// Files signals when something changed in one of the directories: an entry
// written, made, renamed, removed or swapped, a permission, a file that an entry
// links to; or the directory itself appeared, went or was replaced, also by a
// symbolic link on the way to it. A directory that does not exist is waited for
// through the nearest one above it that does.
//
// The signal comes when nothing changed for the quiet time, at the latest ten
// times as long after the first change. Signals do not queue. What changed before
// Files returned is not signalled: read the files after it. The channel is closed
// when ctx has ended and nothing is watched any more. There is no timer while nothing changes,
// unless the set polls, see [Set.Poll].
func (s *Set) Files(ctx context.Context, dirs []string, quiet time.Duration, log *slog.Logger) (<-chan struct{}, error) {
	return s.FilesWithin(ctx, dirs, quiet, 0, log)
}

// Files is [Set.Files] of a set of its own.
func Files(ctx context.Context, dirs []string, quiet time.Duration, log *slog.Logger) (<-chan struct{}, error) {
	return new(Set).Files(ctx, dirs, quiet, log)
}

// FilesWithin is Files with another bound than ten quiet times for how long a
// stream of changes may put off the signal.
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

// pollFiles signals changes until the directories can be watched; nil: ctx has ended
// before.
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
	offer(out) // for what has changed since the last poll
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
			// Most likely the kernel's queue overflowed (IN_Q_OVERFLOW) and events
			// were lost; whatever it is, something may have changed.
			t.log.Warn("lost track of file changes, looking anew", "err", err)
			t.again()
			changed = true
		case <-timer.C:
			d.done()
			select {
			case out <- struct{}{}:
			default: // the one before has not been taken yet, and stands for this too
			}
		}
		if changed {
			timer.Reset(d.change(time.Now()))
		}
	}
}

// debounce decides how long after a change to signal.
type debounce struct {
	quiet time.Duration
	bound time.Duration // 0: patience times quiet
	limit time.Time     // of the changes that have not been signalled; zero if there are none
}

// change returns how long to wait from now, when something changed.
func (d *debounce) change(now time.Time) time.Duration {
	if d.limit.IsZero() {
		d.limit = now.Add(cmp.Or(d.bound, patience*d.quiet))
	}
	return max(0, min(d.quiet, d.limit.Sub(now)))
}

func (d *debounce) done() { d.limit = time.Time{} }
