package daemon

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"dcm/internal/linux/systemd"
)

// Who has nobody at the other end has nothing to hang up, and asks anew the next time.
func TestAPassWithoutPID1HasNothingToClose(t *testing.T) {
	dials := 0
	m := &manager{dial: func(context.Context) (Units, error) {
		dials++
		var none *systemd.Conn // as a function that returns one and an error hands it on
		return none, errors.New("nobody is there")
	}, log: &passLog{slog.New(slog.NewTextHandler(t.Output(), nil))}}
	for range 2 {
		if _, err := m.connect(t.Context()); err == nil {
			t.Error("no error")
		}
	}
	m.close()
	if dials != 2 {
		t.Errorf("PID 1 was looked for %d times, want 2", dials)
	}
}
