package leaseservice

import (
	"context"
	"sync"
	"time"
)

// reloadInterval is the shortest time between two reloads of PID 1 for extensions. A reload runs all
// generators and loads all units, so users must not be able to cause many.
const reloadInterval = 5 * time.Second

// reloads makes PID 1 load its units again. Concurrent callers share a reload.
type reloads struct {
	interval time.Duration
	do       func(context.Context) error
	turn     chan struct{} // capacity 1; held by the caller that reloads

	mu        sync.Mutex
	requested int // number of calls of reload
	done      int // the calls up to this number are complete
	last      time.Time
}

func newReloads(interval time.Duration, do func(context.Context) error) *reloads {
	return &reloads{interval: interval, do: do, turn: make(chan struct{}, 1)}
}

// reload returns when PID 1 has loaded its units after the call began.
func (r *reloads) reload(ctx context.Context) error {
	r.mu.Lock()
	r.requested++
	own := r.requested
	r.mu.Unlock()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	complete, next := r.done >= own, time.Until(r.last.Add(r.interval))
	r.mu.Unlock()
	if complete {
		return nil
	}
	select {
	case <-time.After(next):
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	upTo := r.requested
	r.last = time.Now()
	r.mu.Unlock()
	err := r.do(ctx)
	if err == nil {
		r.mu.Lock()
		r.done = upTo
		r.mu.Unlock()
	}
	return err
}
