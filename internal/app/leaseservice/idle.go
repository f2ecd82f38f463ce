package leaseservice

import (
	"context"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/gpu"
)

// endPollInterval is the interval in which leases are listed again if their ends cause no event.
const endPollInterval = 15 * time.Second

// AwaitIdle returns when there is no lease. It calls report with the remaining leases, at first and
// after each change.
func AwaitIdle(ctx context.Context, h *host.Host, report func([]gpu.Holder)) error {
	if len(host.LeaseHolders(h)) == 0 {
		return nil
	}
	conn, err := h.DialToWait(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended, stop, err := conn.Manager.WatchRemoved(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return awaitIdle(ctx, func() []gpu.Holder { return host.LeaseHolders(h) }, ended, report)
}

func awaitIdle(ctx context.Context, list func() []gpu.Holder, ended <-chan struct{}, report func([]gpu.Holder)) error {
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
			report(now)
		}
		known = units
		next, cancel := context.WithTimeout(ctx, endPollInterval)
		select {
		case <-ended:
		case <-next.Done():
		}
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
