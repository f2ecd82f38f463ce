package service

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/testkit/testdeadline"
)

// The daemon hears of a run at its end. Who looks at it over the bus sees each step.
func TestEachStepOfARunIsShown(t *testing.T) {
	root := t.TempDir()
	h := &host.Host{Root: root}
	if err := os.MkdirAll(h.Runtime(), 0o755); err != nil {
		t.Fatal(err)
	}
	m := &statusPublisher{host: h, log: slog.New(slog.NewTextHandler(io.Discard, nil)), again: make(chan struct{}, 1)}
	m.accompany(t.Context(), runstate.Applying)
	for _, step := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(h.Runtime(), "report.json"), []byte(step), 0o644); err != nil {
			t.Fatal(err)
		}
		select {
		case <-m.again:
		case <-testdeadline.After(20 * time.Second):
			t.Fatalf("step %s is not shown", step)
		}
		m.accompany(t.Context(), runstate.Applying) // as what is shown does
	}
	m.accompany(t.Context(), runstate.InSync)
	if m.running != nil {
		t.Error("it watches on when the run is over")
	}
}
