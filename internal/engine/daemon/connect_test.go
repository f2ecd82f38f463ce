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
	p := &pass{Daemon: &Daemon{Dial: func(context.Context) (Units, error) {
		dials++
		var none *systemd.Conn // as a function that returns one and an error hands it on
		return none, errors.New("nobody is there")
	}}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for range 2 {
		if _, err := p.connect(t.Context()); err == nil {
			t.Error("no error")
		}
	}
	p.hangUp()
	if dials != 2 {
		t.Errorf("PID 1 was looked for %d times, want 2", dials)
	}
}
