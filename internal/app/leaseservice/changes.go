package leaseservice

import (
	"context"
	"slices"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/leases/exclusive"
)

// changePollInterval is the interval for changes without an event: the end of a process that is in
// no unit of its own.
const changePollInterval = 15 * time.Second

// changed is [Partitions.Changed].
func changed(ctx context.Context, h *host.Host) <-chan struct{} {
	out := make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(out)
		limit, cancel := context.WithTimeout(ctx, changePollInterval)
		defer cancel()
		var ended <-chan struct{}
		if conn, err := h.DialToWait(limit); err == nil {
			defer conn.Close()
			if removed, stop, err := conn.Manager.WatchRemoved(limit); err == nil {
				defer stop()
				ended = removed
			}
		}
		close(ready)
		select {
		case <-ended:
		case <-limit.Done():
		}
	}()
	<-ready // later changes are reported
	return out
}

// exclusiveEnds calls notify when an exclusive lease has ended, so that the guard's table is updated:
// other holders may open its partitions then.
type exclusiveEnds struct {
	host   *host.Host
	notify func()
}

// watchAll waits for the ends of the exclusive leases that an earlier daemon has allocated.
func (e exclusiveEnds) watchAll(ctx context.Context) {
	for _, unit := range host.LeaseUnits(e.host) {
		if exclusive.Lease(unit) {
			go e.watch(ctx, unit)
		}
	}
}

func (e exclusiveEnds) watch(ctx context.Context, unit string) {
	for ctx.Err() == nil {
		next := changed(ctx, e.host)
		if !slices.Contains(host.LeaseUnits(e.host), unit) {
			e.notify()
			return
		}
		<-next
	}
}
