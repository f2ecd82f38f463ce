package service

import "testing"

func TestMemoryIsGivenBackOnceAndWithoutWakingUpForIt(t *testing.T) {
	given := 0
	count := func() { given++ }
	s := &spare{give: count, awake: true}
	s.beat()
	s.rests(false)
	s.rests(false)
	if given != 0 {
		t.Errorf("given back %d times before anything has woken the daemon", given)
	}
	s.beat()
	s.beat()
	if given != 1 {
		t.Errorf("given back %d times, want once", given)
	}
	s.rests(false)
	if s.rests(true); given != 2 {
		t.Error("behind a run it is kept")
	}
	if s.beat(); given != 2 {
		t.Error("what was given back is given back again")
	}
	s = &spare{give: count}
	if s.rests(false); given != 3 {
		t.Error("without a watchdog it is kept")
	}
}
