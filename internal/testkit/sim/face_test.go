package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// A write waits for what was closed before it, but not for long.
func TestWrite_WaitsForClosingDevices(t *testing.T) {
	for _, test := range []struct {
		name     string
		released time.Duration // after the flush; 0 for never
		want     time.Duration
	}{
		{"released soon", 10 * time.Millisecond, 10 * time.Millisecond},
		{"still open elsewhere", 0, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFace(nil)
			h := &Handle{}
			begun := time.Now()
			f.drain(t.Context())
			f.flushed(h)
			if test.released > 0 {
				time.AfterFunc(test.released, func() { f.released(h) })
			}
			f.drain(t.Context())
			f.drain(t.Context())
			if took := time.Since(begun); took != test.want {
				t.Errorf("%s: waited %v, want %v", test.name, took, test.want)
			}
		})
	}
}
