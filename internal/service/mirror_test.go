package service

import (
	"context"
	"testing"
	"time"

	"dcm/internal/ample"
)

// Who asks over the bus waits no longer than its own call lasts, though the mirror is
// busy with a look at GPUs that do not answer.
func TestCatchingUpEndsWithTheCall(t *testing.T) {
	m := &mirror{wanted: make(chan chan<- struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.caughtUp(ctx)
	}()
	<-m.wanted // taken, and never shown
	cancel()
	select {
	case <-ended:
	case <-ample.After(20 * time.Second):
		t.Error("it waits for what is never shown")
	}
}
