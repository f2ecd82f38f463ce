package service

import "testing"

func TestMemoryIsGivenBackOnceAndWithoutWakingUpForIt(t *testing.T) {
	given := 0
	count := func() { given++ }
	s := &spare{give: count, awake: true}
	s.beat()
	s.rests()
	s.rests()
	if given != 0 {
		t.Errorf("given back %d times before anything has woken the daemon", given)
	}
	s.beat()
	s.beat()
	if given != 1 {
		t.Errorf("given back %d times, want once", given)
	}
	s = &spare{give: count}
	if s.rests(); given != 2 {
		t.Error("without a watchdog it is kept")
	}
}
