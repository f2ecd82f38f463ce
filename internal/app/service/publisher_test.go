package service

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/testkit/testdeadline"
)

// Who asks over the bus waits no longer than its own call lasts, though the statusPublisher is
// busy with a look at GPUs that do not answer.
func TestCatchingUpEndsWithTheCall(t *testing.T) {
	m := &statusPublisher{wanted: make(chan chan<- struct{})}
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
	case <-testdeadline.After(20 * time.Second):
		t.Error("it waits for what is never shown")
	}
}

// The run succeeds with the present GPUs. The journal names the missing one.
func TestPublisher_LogsMissingGPUOnce(t *testing.T) {
	var logged bytes.Buffer
	m := &statusPublisher{host: &host.Host{Root: t.TempDir()}, log: slog.New(slog.NewTextHandler(&logged, nil))}
	a := status.Evaluate(status.Account{Expected: status.Expected{GPUs: 1, Missing: []string{"0000:05:00.0"}}})
	m.remember(a)
	m.remember(a)
	if n := strings.Count(logged.String(), "0 of 1 GPUs: missing 0000:05:00.0"); n != 1 {
		t.Errorf("log entries: got %d, want 1:\n%s", n, &logged)
	}
}

// The unit's status would end with what a look that was cut off has not seen.
func TestALookThatIsCutOffByTheEndIsNotTold(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	log := slog.New(slog.DiscardHandler)
	m := newStatusPublisher(h, newEffectiveConfig(h, log), &exporter{host: h, log: log}, func(line string) error {
		t.Errorf("the unit's status is %q", line)
		return nil
	}, log)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.show(ctx, runstate.State{Phase: runstate.Stuck})
}
