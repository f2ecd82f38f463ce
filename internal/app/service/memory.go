package service

import (
	"runtime/debug"
	"sync/atomic"
)

// memoryReleaser is the memory that work took and rest has no use of. It goes back to the system
// before the runtime comes to it, which wakes up for it: behind a run at once. Behind less
// there is little, and to find it takes a sixth of what a start of the daemon with nothing
// to do takes in all; that waits until the watchdog next wakes the daemon.
type memoryReleaser struct {
	give  func()
	awake bool // whether anything wakes the daemon; otherwise it is given back at once
	some  atomic.Bool
}

func newMemoryReleaser(awake bool) *memoryReleaser {
	return &memoryReleaser{give: debug.FreeOSMemory, awake: awake}
}

// afterWork is called when work has ended, a run or less, and nothing may happen for days.
func (s *memoryReleaser) afterWork(run bool) {
	if s.awake && !run {
		s.some.Store(true)
		return
	}
	s.some.Store(false)
	s.give()
}

// onWatchdog is called when the watchdog has woken the daemon.
func (s *memoryReleaser) onWatchdog() {
	if s.some.Swap(false) {
		s.give()
	}
}
