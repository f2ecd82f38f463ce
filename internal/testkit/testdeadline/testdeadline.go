// Package testdeadline provides deadlines for tests that load alone does not exceed. They
// count processor time that was available to the test, not wall-clock time.
package testdeadline

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// sampleInterval is the time between two readings of the load. A longer pause counts as one
// interval, because this process did not run in it.
const sampleInterval = 100 * time.Millisecond

// Context is context.WithTimeout with such a deadline.
func Context(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		ticker := time.NewTicker(sampleInterval)
		defer ticker.Stop()
		for left := d; left > 0; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				left -= time.Duration(float64(sampleInterval) * availableShare())
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

// availableShare returns the part of a processor that a task gets now.
func availableShare() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	return share(string(text), runtime.NumCPU())
}

// share computes it from the text of /proc/loadavg. The load is the larger of two values: the
// average of the last minute, which includes tasks that wait for a disk, and the number of
// tasks that are runnable now.
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
