package service

import "testing"

func TestMemoryIsGivenBackOnceAndWithoutWakingUpForIt(t *testing.T) {
	given := 0
	count := func() { given++ }
	s := &memoryReleaser{give: count, awake: true}
	s.onWatchdog()
	s.afterWork(false)
	s.afterWork(false)
	if given != 0 {
		t.Errorf("given back %d times before anything has woken the daemon", given)
	}
	s.onWatchdog()
	s.onWatchdog()
	if given != 1 {
		t.Errorf("given back %d times, want once", given)
	}
	s.afterWork(false)
	if s.afterWork(true); given != 2 {
		t.Error("behind a run it is kept")
	}
	if s.onWatchdog(); given != 2 {
		t.Error("what was given back is given back again")
	}
	s = &memoryReleaser{give: count}
	if s.afterWork(false); given != 3 {
		t.Error("without a watchdog it is kept")
	}
}
