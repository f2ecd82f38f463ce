package lease

import (
	"slices"
	"sync"
	"testing"
)

// After a restart of the daemon, callers that waited before reconnect in any order, while new
// callers arrive.
func TestQueue_OrderAfterRestart(t *testing.T) {
	h := newHost()
	window := make(chan struct{})
	k := New(Config{Host: hostOf(h), RejoinWindow: func() <-chan struct{} { return window }})
	served := make(chan uint64)
	wait := func(age uint64) {
		r, queued := waiting(8)
		go func() {
			l, err := k.Acquire(t.Context(), Caller{UID: 1000, PID: 2, Seniority: age}, r)
			if err != nil {
				t.Error(err)
			}
			served <- age
			h.Stop(t.Context(), l.Unit)
		}()
		<-queued
	}
	wait(30)
	wait(0) // a new caller
	wait(10)
	wait(20)
	select {
	case first := <-served:
		t.Fatalf("request %d got a lease in the window for reconnecting", first)
	default:
	}
	close(window)
	var got []uint64
	for range 4 {
		got = append(got, <-served)
	}
	if want := []uint64{10, 20, 30, 0}; !slices.Equal(got, want) {
		t.Errorf("order: got %d, want %d", got, want)
	}
	// After the window the age of a connection has no effect.
	r := ask(8)
	r.Wait = true // the last lease may not have ended yet
	all := acquire(t, k, alice, r)
	wait(0)
	wait(5)
	h.Stop(t.Context(), all.Unit)
	if first, second := <-served, <-served; first != 0 || second != 5 {
		t.Errorf("order: got %d, %d, want 0, 5", first, second)
	}
}

// waiting returns a waiting request, and a channel that is closed when it is in the queue.
func waiting(n int) (r Request, queued <-chan struct{}) {
	reported := make(chan struct{})
	once := sync.OnceFunc(func() { close(reported) })
	r = ask(n)
	r.Wait = true
	r.Moved = func(Queued, int) { once() }
	return r, reported
}

func TestQueue_NewCallersOpenNoWindow(t *testing.T) {
	k := New(Config{Host: hostOf(newHost()), RejoinWindow: func() <-chan struct{} { t.Error("a window was opened"); return nil }})
	r := ask(1)
	r.Wait = true
	acquire(t, k, alice, r)
}
