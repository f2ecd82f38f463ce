package service

import (
	"runtime/debug"
	"sync/atomic"
)

// memoryReleaser returns freed heap to the OS, before the runtime wakes up to do it: immediately
// after a run, otherwise at the next watchdog tick. Less work frees little, and finding it takes a
// sixth of the CPU time of a start of the daemon.
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
