package daemon

import (
	"context"
	"errors"
	"log/slog"
	"testing"
)

func TestConnection_DialsAgainAfterFailure(t *testing.T) {
	dials := 0
	c := &connection{dial: func(context.Context) (PID1, error) {
		dials++
		return PID1{}, errors.New("no reply")
	}, log: &passLog{slog.New(slog.NewTextHandler(t.Output(), nil))}}
	for range 2 {
		if _, err := c.open(t.Context()); err == nil {
			t.Error("open returned no error")
		}
	}
	c.close() // must not close a connection that was not made
	if dials != 2 {
		t.Errorf("dialled %d times, want 2", dials)
	}
}
