package service

import "testing"

// What a process leaves open at its end is taken apart after it, one after the other.
func TestAnEndWaitsForAllThatWatches(t *testing.T) {
	ended := false
	first, second := make(chan struct{}, 1), make(chan struct{})
	first <- struct{}{} // a signal that was not received
	leave(func() {
		ended = true
		close(first)
		go func() { close(second) }()
	}, first, second)
	if _, open := <-second; !ended || open {
		t.Errorf("ended: %v; the last still watches: %v", ended, open)
	}
}
