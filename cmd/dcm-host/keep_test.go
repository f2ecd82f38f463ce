package main

import (
	"context"
	"errors"
	"testing"
)

// PID 1 runs a requested job even if its caller has ended: without a stop after it the
// daemon would be left without its container.
func TestKeep_StopDuringInstall(t *testing.T) {
	failed := errors.New("no")
	for _, s := range []struct {
		name    string
		begin   func(ctx context.Context, terminate func()) error
		stopped bool
		want    error
	}{
		{"it runs", func(_ context.Context, terminate func()) error { terminate(); return nil }, true, nil},
		{"PID 1 reloads", func(ctx context.Context, terminate func()) error { terminate(); return ctx.Err() }, true, nil},
		{"it fails", func(context.Context, func()) error { return failed }, false, failed},
		{"it fails, and is stopped", func(_ context.Context, terminate func()) error { terminate(); return failed }, true, failed},
	} {
		t.Run(s.name, func(t *testing.T) {
			ctx, terminate := context.WithCancel(t.Context())
			defer terminate()
			stopped := false
			err := keep(ctx,
				func(ctx context.Context) error { return s.begin(ctx, terminate) },
				func(ctx context.Context) error { stopped = true; return ctx.Err() })
			if !errors.Is(err, s.want) || stopped != s.stopped {
				t.Errorf("it ended with %v, the daemon stopped: %v", err, stopped)
			}
		})
	}
}
