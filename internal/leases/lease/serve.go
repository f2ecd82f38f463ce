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

	hours time.Time // the next time at which [Hours] begin or end, zero for none; see serve
}

// serve examines the queue until it is empty: after each lease that was started, when a request comes
// or goes, and when a unit has ended.
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
		if changed == nil { // watch from now on, and examine the queue once more for earlier changes
			own, cancel := context.WithCancel(ctx)
			changed, stop = s.host.Partitions.Changed(own), cancel
			continue
		}
		select {
		case <-changed:
			stop()
			changed, stop = nil, func() {}
		case <-s.queue.changed:
		case <-s.hoursChange():
		}
	}
}

// clockInterval limits how long a change of the host's clock stays unnoticed.
const clockInterval = time.Minute

// hoursChange returns a channel that receives when [Hours] may have begun or ended.
func (s *server) hoursChange() <-chan time.Time {
	if s.hours.IsZero() {
		return nil
	}
	return time.After(min(time.Until(s.hours), clockInterval))
}

// pass examines each request of the queue once. It returns true as soon as it has started a lease or
// refused a request, since its snapshot is then outdated.
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

// judge returns the first request of the queue that may start now, nil for none. The requests before
// it are blocked or refused.
func (s *server) judge(ctx context.Context, snapshot Snapshot, r round) *candidate {
	plan := schedule{
		policy: s.policy, processes: s.host.Processes, snapshot: snapshot, now: time.Now(), rejoining: r.rejoining,
		held: make(map[string]bool), starts: make(map[*pending]time.Time),
	}
	s.hours = snapshot.hoursEnd()
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

// grant lets the goroutine of the request start the lease, and returns when it has tried.
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

// hold replaces a pass while no lease can start. A drain waits for the end of all leases, so no caller
// may wait inside a lease. A caller that is alone in its lease is moved out of it. If there are other
// processes in the lease, the request is refused.
func (s *server) hold(ctx context.Context, list []*pending, err error) (again bool) {
	if !errors.Is(err, ErrChanging) {
		s.queue.refuse(list[0], err)
		return true
	}
	for _, p := range list {
		if unit := locate(s.host.Processes, p.Caller).around(); unit != "" && p.Wait && errors.Is(err, ErrDraining) {
			s.queue.refuse(p, fmt.Errorf("%w; the calling process is in %s, which has to end first, so it cannot wait", err, unit))
			continue
		}
		s.queue.block(p, err)
	}
	s.vacate(ctx, list)
	return false
}

// vacate moves each waiting caller that is alone in its lease out of that lease. The lease ends, so
// that no request and no drain waits for the end of a process that itself waits.
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
