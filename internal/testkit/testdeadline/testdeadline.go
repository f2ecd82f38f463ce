// Package testdeadline provides deadlines for tests that load alone does not exceed. They
// count processor time that was available to the test, not wall-clock time.
package testdeadline

import (
	"context"
	"time"
)

// Context is context.WithTimeout with such a deadline.
func Context(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	remove := process.add(d, func() { cancel(context.DeadlineExceeded) })
	context.AfterFunc(ctx, remove)
	return ctx, func() { cancel(context.Canceled) }
}

// After is time.After with such a deadline.
func After(d time.Duration) <-chan struct{} {
	ctx, _ := Context(context.Background(), d)
	return ctx.Done()
}
