package watch

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Set is a set of watches. When the first of them ends, it removes the inotify watches of all. So the
// kernel waits for one SRCU grace period (about 12 ms, fsnotify_destroy_group), and not for one for
// each watch. The exit of the process would wait for each of them, too. The zero value is an empty set.
type Set struct {
	// Poll makes the watches poll every [PollInterval] while the limits of inotify are reached.
	// If it is false, a reached limit is an error.
	Poll bool

	every time.Duration // poll interval; 0: PollInterval
	limit func() error  // set by tests: the error of new instances

	mu    sync.Mutex
	ends  []func() // end the active watches
	arms  []func() // list and watch the files of devices again
	polls int      // number of watches that poll
	why   error    // why the last of them began to poll
}

// join adds a watch. end ends it.
func (s *Set) join(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, end)
}

// Rearm lists and watches the files of devices again, since files may appear without an event of the
// kernel.
func (s *Set) Rearm() {
	s.mu.Lock()
	arms := slices.Clone(s.arms)
	s.mu.Unlock()
	for _, arm := range arms {
		arm()
	}
}

func (s *Set) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range s.ends {
		end()
	}
	s.ends = nil
}

// closeDelay is enough time for the kernel to free removed watches.
const closeDelay = 50 * time.Millisecond

// letGo closes an inotify instance whose watches were removed, after [closeDelay], so that the close
// does not block.
func letGo(inotify io.Closer) {
	time.AfterFunc(closeDelay, func() { inotify.Close() })
}
