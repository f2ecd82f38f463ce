package watch

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Set is watches that have their end together, with the first of them: one right behind
// the other. The kernel has who closes an inotify wait until its watches are put away
// (fsnotify_destroy_group): mostly for one short grace period if all were removed at once,
// and for a second one of some 12 ms if they were not, or not before. A restart of the
// process waits for that. The zero value is empty.
type Set struct {
	// Poll has the watches of the set poll every [PollInterval] for as long as the kernel has
	// no inotify instance, or no watch, for them. Otherwise that is an error.
	Poll bool

	every time.Duration // between two polls; 0: PollInterval
	limit func() error  // of tests: why there is no instance

	mu    sync.Mutex
	ends  []func() // of those that have not had it
	arms  []func() // of the watches on devices' files
	polls int      // watches that poll
	why   error    // they do
}

// join has the set end a watch too.
func (s *Set) join(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, end)
}

// Rearm watches the devices' files that there are now: those that have come since the last
// signal, without an event of the kernel's, too.
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

// putAway is ample for the kernel to put away watches that were removed.
const putAway = 50 * time.Millisecond

// letGo closes an inotify that has no watches any more, when that waits for nothing. A
// process that ends before has it closed by then.
func letGo(inotify io.Closer) {
	time.AfterFunc(putAway, func() { inotify.Close() })
}
