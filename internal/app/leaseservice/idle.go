package leaseservice

import (
	"context"
	"slices"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/gpu"
)

// endPollInterval is the interval in which leases are listed again if their ends cause no event.
const endPollInterval = 15 * time.Second

// AwaitIdle returns when there is no lease. It calls report with the remaining leases, at first and
// after each change.
func AwaitIdle(ctx context.Context, h *host.Host, report func([]gpu.Holder)) error {
	known := ""
	return await(ctx, h, func() bool {
		now := host.LeaseHolders(h)
		units := ""
		for _, l := range now {
			units += l.Unit + " "
		}
		if units != known && len(now) > 0 {
			report(now)
		}
		known = units
		return len(now) == 0
	})
}

// AwaitEnd returns when one of the leases has ended.
func AwaitEnd(ctx context.Context, h *host.Host, units []string) error {
	return await(ctx, h, func() bool {
		now := host.LeaseUnits(h)
		return slices.ContainsFunc(units, func(unit string) bool { return !slices.Contains(now, unit) })
	})
}

// await returns when over is true. It calls over at first and after the end of each unit.
func await(ctx context.Context, h *host.Host, over func() bool) error {
	if over() {
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
	return awaitEvent(ctx, over, ended)
}

func awaitEvent(ctx context.Context, over func() bool, ended <-chan struct{}) error {
	for !over() {
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
	return nil
}
