// Package testdeadline makes the deadlines of tests ones that a busy machine alone cannot
// break: they count the time that the machine had for the test, not what the clock
// shows. It is for tests, and for nothing that a user waits for.
package testdeadline

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// beat is how often the load is looked at. A longer pause between two looks was not
// the test's either: it counts as one beat.
const beat = 100 * time.Millisecond

// Context is context.WithTimeout with such a deadline.
func Context(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for left := d; left > 0; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				left -= time.Duration(float64(beat) * now())
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// After is time.After with such a deadline.
func After(d time.Duration) <-chan struct{} {
	ctx, _ := Context(context.Background(), d)
	return ctx.Done()
}

// now is the share of this moment that is the test's.
func now() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	return share(string(text), runtime.NumCPU())
}

// share is how much of its time a task gets on so many processors, by what
// /proc/loadavg says: the average of the last minute, in which those count that wait
// for a disk, or what can run at this moment, if that is more.
func share(loadavg string, processors int) float64 {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 1
	}
	load, _ := strconv.ParseFloat(fields[0], 64)
	text, _, _ := strings.Cut(fields[3], "/")
	running, _ := strconv.ParseFloat(text, 64)
	return min(1, float64(processors)/max(load, running, 1))
}
