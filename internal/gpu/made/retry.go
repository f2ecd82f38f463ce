package made

import (
	"context"
	"time"
)

// retry calls attempt until it succeeds, fails with an error that again does not accept, or ctx ends. It returns
// the error of the last attempt that the end of ctx has not cut off.
func retry(ctx context.Context, delay time.Duration, again func(error) bool, attempt func() error) error {
	var reason error
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		if reason == nil || ctx.Err() == nil {
			reason = err
		}
		if !again(err) || ctx.Err() != nil {
			return reason
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}
