package systemd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/godbus/dbus/v5"
)

// The signal of a job's end can be lost without a sign of it: PID 1 executes itself again while the bus restarts.
func TestAwaitJob_SignalLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscription{wake: make(chan struct{}, 1), results: make(map[dbus.ObjectPath]string)}
		begun := time.Now()
		err := s.awaitJob(t.Context(), "/org/freedesktop/systemd1/job/7", func(result string, certain bool) (bool, error) {
			return result == "" && !certain, nil
		})
		if waited := time.Since(begun); err != nil || waited != recheckInterval {
			t.Errorf("waited %s, want the state to be read after %s: %v", waited, recheckInterval, err)
		}
	})
}
