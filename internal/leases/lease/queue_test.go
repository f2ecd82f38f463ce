package lease

import (
	"slices"
	"testing"
)

// TestTheLineIsAsItWasBehindARestart: those who waited for the keeper before come back in
// any order, and while they do others come.
func TestTheLineIsAsItWasBehindARestart(t *testing.T) {
	h := newHost()
	together := make(chan struct{})
	k := &Allocator{Host: h, RejoinWindow: func() <-chan struct{} { return together }}
	served := make(chan uint64)
	wait := func(came uint64, inLine int) {
		r := ask(8)
		r.Wait = true
		go func() {
			l, err := k.Acquire(t.Context(), Caller{UID: 1000, PID: 2, Seniority: came}, r)
			if err != nil {
				t.Error(err)
			}
			served <- came
			h.Stop(t.Context(), l.Unit)
		}()
		for standing := 0; standing < inLine; { // nothing tells when it stands there
			k.mu.Lock()
			standing = len(k.queue)
			k.mu.Unlock()
		}
	}
	wait(30, 1)
	wait(0, 2) // a new one
	wait(10, 3)
	wait(20, 4)
	select {
	case first := <-served:
		t.Fatalf("before all are back %d is served", first)
	default:
	}
	close(together)
	var got []uint64
	for range 4 {
		got = append(got, <-served)
	}
	if want := []uint64{10, 20, 30, 0}; !slices.Equal(got, want) {
		t.Errorf("served are %d, want %d", got, want)
	}
	// From then on nobody is before another for the age of his connection.
	r := ask(8)
	r.Wait = true // the last one served may not have ended yet
	all := acquire(t, k, alice, r)
	wait(0, 1)
	wait(5, 2)
	h.Stop(t.Context(), all.Unit)
	if first, second := <-served, <-served; first != 0 || second != 5 {
		t.Errorf("served are %d and %d, want 0 and 5", first, second)
	}
}

// Who is new does not wait for others to come back.
func TestWithoutARestartEachIsServedAsHeComes(t *testing.T) {
	k := &Allocator{Host: newHost(), RejoinWindow: func() <-chan struct{} { t.Error("it is waited for others"); return nil }}
	r := ask(1)
	r.Wait = true
	acquire(t, k, alice, r)
}
