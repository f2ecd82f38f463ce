package amdgpu

import (
	"context"
	"time"
)

// retry says how long and how often an operation on a busy GPU is retried.
type retry struct{ timeout, interval time.Duration }

// until returns the end of retries that begin now.
func (r retry) until() time.Time { return time.Now().Add(r.timeout) }

// run calls f, and again while it reports that the GPU is busy, until the given time or the
// end of ctx. It returns the last error.
func (r retry) run(ctx context.Context, until time.Time, f func() (busy bool, err error)) error {
	tick := time.NewTicker(r.interval)
	defer tick.Stop()
	for {
		busy, err := f()
		if !busy || !time.Now().Before(until) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
