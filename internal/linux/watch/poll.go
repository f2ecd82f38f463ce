package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// PollInterval is the time between polls if inotify is not available.
const PollInterval = 15 * time.Second

// Polling returns the error because of which the set polls, nil if it does not.
func (s *Set) Polling() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polls == 0 {
		return nil
	}
	return s.why
}

func (s *Set) beginPolling(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls++
	s.why = why
}

func (s *Set) endPolling() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls--
}

// allowed returns the error that a test injects.
func (s *Set) allowed() error {
	if s.limit == nil {
		return nil
	}
	return s.limit()
}

// mayPoll reports whether the set polls after this error: only if it is a limit of the kernel.
func (s *Set) mayPoll(err error) bool { return s.Poll && exhausted(err) }

func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSPC)
}

// limited adds the kernel's limit to an error of inotify.
func limited(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("no inotify instance is available: %w (limit: sysctl fs.inotify.max_user_instances)", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("no inotify watch is available: %w (limit: sysctl fs.inotify.max_user_watches)", err)
	}
	return err
}

// polled calls begin at each interval, and poll if begin fails, until begin succeeds or ctx ends. It
// reports whether begin succeeded.
func (s *Set) polled(ctx context.Context, begin func() error, poll func()) bool {
	defer s.endPolling()
	tick := time.NewTicker(cmp.Or(s.every, PollInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if begin() == nil {
			return true
		}
		poll()
	}
}

// fingerprint returns a text that is different after each change that [Set.Files] signals.
func fingerprint(dirs []string) string {
	sum := sha256.New()
	for _, dir := range dirs {
		fmt.Fprintf(sum, "%q", dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			fmt.Fprintf(sum, " %v", err)
		}
		note(sum, dir)
		for _, e := range entries {
			fmt.Fprintf(sum, " %q", e.Name())
			note(sum, filepath.Join(dir, e.Name()))
		}
	}
	return string(sum.Sum(nil))
}

// note adds the file or directory at a path to the fingerprint. It omits the times of directories,
// since their entries are added separately.
func note(sum hash.Hash, path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		fmt.Fprintf(sum, " %v", err)
	case info.IsDir():
		fmt.Fprintf(sum, " %s", identity(info))
	default:
		fmt.Fprintf(sum, " %s %d %d", identity(info), info.Size(), info.ModTime().UnixNano())
	}
}
