package leaseservice

import (
	"context"
	"time"

	"dcm/internal/app/host"
	"dcm/internal/gpu"
)

// overlooked is how long the end of a lease may go without being heard of.
const endPollInterval = 15 * time.Second

// Idle returns when there is no lease. tell is told of those that are waited for, at
// first and when they are others.
func AwaitIdle(ctx context.Context, h *host.Host, tell func([]gpu.Holder)) error {
	if len(h.Lessees()) == 0 {
		return nil
	}
	conn, err := h.DialToWait(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended, stop, err := conn.WatchRemoved(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return awaitIdle(ctx, h.Lessees, ended, tell)
}

func awaitIdle(ctx context.Context, list func() []gpu.Holder, ended <-chan struct{}, tell func([]gpu.Holder)) error {
	known := ""
	for {
		now := list()
		if len(now) == 0 {
			return nil
		}
		units := ""
		for _, l := range now {
			units += l.Unit + " "
		}
		if units != known {
			tell(now)
		}
		known = units
		look, cancel := context.WithTimeout(ctx, endPollInterval)
		select {
		case <-ended:
		case <-look.Done():
		}
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
