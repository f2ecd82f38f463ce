package daemon

import (
	"context"
	"errors"
	"log/slog"
	"testing"
)

// Without a connection there is nothing to close, and the next call dials again.
func TestAPassWithoutPID1HasNothingToClose(t *testing.T) {
	dials := 0
	m := &manager{dial: func(context.Context) (*Units, error) {
		dials++
		return nil, errors.New("no systemd")
	}, log: &passLog{slog.New(slog.NewTextHandler(t.Output(), nil))}}
	for range 2 {
		if _, err := m.connect(t.Context()); err == nil {
			t.Error("no error")
		}
	}
	m.close()
	if dials != 2 {
		t.Errorf("%d calls of dial, want 2", dials)
	}
}
