package watch

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Set removes its inotify watches together, when the first of them ends, so that the kernel waits
// for one SRCU grace period and not for one for each (about 12 ms, fsnotify_destroy_group). A
// restart of the process waits for that, too. The zero value is an empty set.
type Set struct {
	// Poll makes the watches of the set poll every [PollInterval] while no inotify instance or
	// watch is available. If it is false, that is an error.
	Poll bool

	every time.Duration // poll interval; 0: PollInterval
	limit func() error  // set by tests: the error of new instances

	mu    sync.Mutex
	ends  []func() // of the active watches
	arms  []func() // of the watches of devices' files
	polls int      // watches that poll
	why   error    // of the last watch that began to poll
}

// join adds a watch by its end.
func (s *Set) join(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, end)
}

// Rearm lists the devices' files again and watches them, for files that appeared without an event
// of the kernel.
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

// letGo closes an inotify instance without watches when the close does not block any more.
func letGo(inotify io.Closer) {
	time.AfterFunc(closeDelay, func() { inotify.Close() })
}
