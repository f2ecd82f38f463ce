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

// PollInterval is the time between two polls of a watch that has no inotify instance.
const PollInterval = 15 * time.Second

// Polling returns why watches of the set poll, nil if none does.
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

// allowed returns the error that a test has the kernel answer with.
func (s *Set) allowed() error {
	if s.limit == nil {
		return nil
	}
	return s.limit()
}

// mayPoll reports whether an error is the kernel's limit, and the set polls then.
func (s *Set) mayPoll(err error) bool { return s.Poll && exhausted(err) }

func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSPC)
}

// limited names the limit of the kernel that an error of inotify is about.
func limited(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("no inotify instance is available: %w (limit: sysctl fs.inotify.max_user_instances)", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("no inotify watch is available: %w (limit: sysctl fs.inotify.max_user_watches)", err)
	}
	return err
}

// polled calls poll every interval until begin succeeds or ctx ends. It reports whether
// begin did.
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

// fingerprint is equal for two looks at directories between which nothing has changed that
// [Set.Files] would signal.
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

// note adds what a path leads to. A directory's own times say nothing that its entries do
// not.
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
