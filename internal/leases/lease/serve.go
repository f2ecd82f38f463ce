package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// server decides which request of the queue starts next.
type server struct {
	host    Host
	queue   *queue
	policy  *policy
	starter *starter
}

// serve makes passes until the queue is empty: when a request comes or goes, when a unit has
// ended, and after each lease that was started.
func (s *server) serve(ctx context.Context) {
	var changed <-chan struct{}
	stop := func() {}
	defer func() { stop() }()
	for {
		r := s.queue.begin()
		if len(r.list) == 0 {
			return
		}
		if s.pass(ctx, r) {
			continue
		}
		s.queue.reportPositions()
		if !s.queue.anyWaits() {
			continue
		}
		if changed == nil { // one more pass, for what has changed before Changed was called
			own, cancel := context.WithCancel(ctx)
			changed, stop = s.host.Partitions.Changed(own), cancel
			continue
		}
		select {
		case <-changed:
			stop()
			changed, stop = nil, func() {}
		case <-s.queue.changed:
		}
	}
}

// pass judges each request of the queue once. It returns true when it has started a lease or
// refused a request, so that the snapshot is out of date.
func (s *server) pass(ctx context.Context, r round) (again bool) {
	release, err := s.host.Partitions.Lock()
	if err != nil {
		return s.hold(ctx, r.list, err)
	}
	defer release()
	for next := r.list[0]; next != nil; {
		snapshot, move, err := s.host.Partitions.Prepare(ctx, next.Caller)
		if err != nil {
			s.queue.refuse(next, fmt.Errorf("cannot read the allocations: %w", err))
			return true
		}
		start := s.judge(ctx, snapshot, r)
		if start == nil {
			move.Close()
			s.vacate(ctx, r.list)
			return false
		}
		if start.pending == next {
			s.grant(start, move)
			return true
		}
		move.Close()
		next = start.pending
	}
	return false
}

// judge returns the first request of the queue that may start now, nil for none. It blocks or
// refuses those before it.
func (s *server) judge(ctx context.Context, snapshot Snapshot, r round) *candidate {
	plan := schedule{
		policy: s.policy, processes: s.host.Processes, snapshot: snapshot, now: time.Now(), rejoining: r.rejoining,
		held: make(map[string]bool), starts: make(map[*pending]time.Time),
	}
	plan.terms = sync.OnceValue(func() map[string]Term {
		terms, _ := s.host.Scopes.Terms(ctx, snapshot.leases()) // on an error no lease is known to end
		return terms
	})
	for _, p := range r.list {
		c, err := plan.judge(p)
		switch {
		case err == nil:
			return c
		case Passes(err):
			s.queue.block(p, err)
		default:
			s.queue.refuse(p, err)
		}
	}
	return nil
}

// grant gives the permission to start to the goroutine of the request, and returns when the
// attempt is over.
func (s *server) grant(c *candidate, move Move) {
	defer move.Close()
	if !s.queue.take(c.pending) {
		return
	}
	g := grant{c.snapshot, move, c.choice, c.before, make(chan struct{})}
	select {
	case c.granted <- g:
		<-g.done
	case <-c.left:
	}
}

// hold is a pass while no lease can start. A drain waits for the end of all leases, so a request
// must not wait in one. If its caller is alone in a lease, it is moved out, otherwise the request
// is refused.
func (s *server) hold(ctx context.Context, list []*pending, err error) (again bool) {
	if !errors.Is(err, ErrChanging) {
		s.queue.refuse(list[0], err)
		return true
	}
	for _, p := range list {
		if unit := locate(s.host.Processes, p.Caller).around(); unit != "" && p.Wait && errors.Is(err, ErrDraining) {
			s.queue.refuse(p, fmt.Errorf("%w; this process is in %s, which has to end first, and so cannot wait", err, unit))
			continue
		}
		s.queue.block(p, err)
	}
	s.vacate(ctx, list)
	return false
}

// vacate moves callers that wait, and are alone in a lease of their own, out of it. The lease
// ends, so that no request and no drain waits for a process that itself waits.
func (s *server) vacate(ctx context.Context, list []*pending) {
	for _, p := range list {
		if !s.queue.isBlocked(p) {
			continue
		}
		unit := locate(s.host.Processes, p.Caller).replaced()
		if unit == "" {
			continue
		}
		if err := s.starter.moveOut(ctx, p); err != nil {
			s.queue.refuse(p, fmt.Errorf("cannot move process %d out of %s: %w", p.PID, unit, err))
		}
	}
}
