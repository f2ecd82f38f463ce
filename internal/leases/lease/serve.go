package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dcm/internal/leases/placement"
)

// grant is the permission to start a lease. Its receiver closes done when it has used it.
type grant struct {
	facts  Snapshot
	move   Move
	choice placement.Choice
	before string // the lease that is exchanged
	done   chan struct{}
}

// serve judges the queue until it is empty: when a request comes or goes, when a unit has
// ended, and after each lease that was given.
func (a *Allocator) serve(ctx context.Context) {
	var changed <-chan struct{}
	stop := func() {}
	defer func() { stop() }()
	for {
		r := a.begin()
		if len(r.queue) == 0 {
			return
		}
		if a.pass(ctx, r) {
			continue
		}
		a.reportPositions()
		if !a.anyWaits() {
			continue
		}
		if changed == nil { // what has ended before this was not heard, and is looked for once more
			own, cancel := context.WithCancel(ctx)
			changed, stop = a.Host.Changed(own), cancel
			continue
		}
		select {
		case <-changed:
			stop()
			changed, stop = nil, func() {}
		case <-a.changed:
		}
	}
}

// round is the queue as one pass judges it.
type round struct {
	queue    []*pending // in the order in which it is served
	regroups bool       // callers reconnect after a restart
}

// begin returns the queue as a pass judges it. It is empty when there is nothing to serve
// any more, and then the next request starts [Allocator.serve] again.
func (a *Allocator) begin() round {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.changed:
	default:
	}
	a.serving = len(a.queue) > 0
	return round{a.ordered(), a.rejoin == under}
}

func (a *Allocator) anyWaits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.queue, func(p *pending) bool { return p.Wait })
}

// pass judges each request of the queue once. It returns true when it has given a lease, or
// has failed to, so that the facts are others than it has judged by.
func (a *Allocator) pass(ctx context.Context, r round) (again bool) {
	release, err := a.Host.LockPartitions()
	if err != nil {
		return a.hold(ctx, r.queue, err)
	}
	defer release()
	for next := r.queue[0]; next != nil; {
		snapshot, move, err := a.Host.Prepare(ctx, next.Caller)
		if err != nil {
			a.refuse(next, fmt.Errorf("cannot tell who has which partition: %w", err))
			return true
		}
		start := a.judge(ctx, snapshot, r)
		if start == nil {
			move.Close()
			a.vacate(ctx, r.queue)
			return false
		}
		if start.pending == next {
			a.grant(start, move)
			return true
		}
		move.Close()
		next = start.pending
	}
	return false
}

// grant has a request's caller start its lease, and returns when it has tried.
func (a *Allocator) grant(c *candidate, move Move) {
	defer move.Close()
	a.mu.Lock()
	gone := c.state == ended
	if !gone {
		c.state = starting
		a.dequeue(c.pending)
	}
	a.mu.Unlock()
	if gone {
		return
	}
	g := grant{c.facts, move, c.choice, c.before, make(chan struct{})}
	select {
	case c.granted <- g:
		<-g.done
	case <-c.left:
	}
}

// hold is a pass while no lease can be given. A drain waits for the end of all leases. So a
// request must not wait in one: its caller is moved out of a lease that it is alone in, and
// is refused where other processes are in it.
func (a *Allocator) hold(ctx context.Context, queue []*pending, err error) (again bool) {
	if !errors.Is(err, ErrChanging) {
		a.refuse(queue[0], err)
		return true
	}
	for _, p := range queue {
		if unit := a.locate(p.Caller).around(); unit != "" && p.Wait && errors.Is(err, ErrDraining) {
			a.refuse(p, fmt.Errorf("%w; this process is in %s, which has to end first, and so cannot wait", err, unit))
			continue
		}
		a.block(p, err)
	}
	a.vacate(ctx, queue)
	return false
}

// vacate moves callers that wait, and are alone in a lease of theirs, out of it. The lease
// ends: no request and no drain waits for a process that waits itself.
func (a *Allocator) vacate(ctx context.Context, queue []*pending) {
	for _, p := range queue {
		a.mu.Lock()
		waits := p.state == blocked
		a.mu.Unlock()
		if !waits {
			continue
		}
		unit := a.locate(p.Caller).exchanged()
		if unit == "" {
			continue
		}
		if err := a.moveOut(ctx, p); err != nil {
			a.refuse(p, fmt.Errorf("cannot move process %d out of %s: %w", p.PID, unit, err))
		}
	}
}

// out moves a caller into a scope without any device.
func (a *Allocator) moveOut(ctx context.Context, p *pending) error {
	_, move, err := a.Host.Prepare(ctx, p.Caller)
	if err != nil {
		return err
	}
	defer move.Close()
	if err := a.Host.Check(p.Caller); err != nil {
		return err
	}
	unit := waitName(p.UID)
	_, err = move.Start(ctx, Scope{Unit: unit, Description: "Waiting for a lease", PID: p.PID})
	if err == nil {
		err = a.Host.Check(p.Caller)
	}
	if err != nil {
		return errors.Join(err, move.Undo(context.WithoutCancel(ctx), unit))
	}
	return nil
}

// notMovedDelay is the delay before a request that waits is queued again because systemd has
// moved no process into its scopes.
const notMovedDelay = time.Second

// wait queues a request and returns its lease.
func (a *Allocator) wait(ctx context.Context, c Caller, r Request) (Lease, error) {
	l, opened, err := a.request(ctx, c, r)
	if err != nil || !opened {
		return l, err
	}
	return a.replace(ctx, c, r, l)
}

// request queues a request. A request that waits does not fail because of a daemon-reexec: it
// returns to its place in the queue. opened is true if the lease is exclusive and other
// processes have its partitions open.
func (a *Allocator) request(ctx context.Context, c Caller, r Request) (l Lease, opened bool, err error) {
	since := time.Now()
	for {
		l, opened, err = a.enqueue(ctx, c, r, since)
		if !r.Wait || !errors.Is(err, ErrNotMoved) {
			return l, opened, err
		}
		select {
		case <-ctx.Done():
			return Lease{}, false, fmt.Errorf("no longer waiting: %w", ctx.Err())
		case <-time.After(notMovedDelay):
		}
		if err := a.Host.Check(c); err != nil {
			return Lease{}, false, err
		}
	}
}

// enqueue queues a request that was made at that time, once.
func (a *Allocator) enqueue(ctx context.Context, c Caller, r Request, since time.Time) (l Lease, opened bool, err error) {
	p := &pending{
		Caller: c, Request: r, since: since,
		granted: make(chan grant), refused: make(chan error, 1), left: make(chan struct{}),
	}
	a.join(ctx, p)
	select {
	case g := <-p.granted:
		if l, err = a.use(ctx, c, r, g); err == nil {
			opened = a.complete(ctx, &l, r)
		}
		return l, opened, err
	case err := <-p.refused:
		return Lease{}, false, err
	case <-ctx.Done():
		a.leave(p)
		return Lease{}, false, fmt.Errorf("no longer waiting: %w", ctx.Err())
	}
}

// use starts the lease of a grant. The lock of [Host.LockPartitions] is held until it returns.
func (a *Allocator) use(ctx context.Context, c Caller, r Request, g grant) (Lease, error) {
	defer close(g.done)
	if err := a.Host.Check(c); err != nil {
		return Lease{}, err
	}
	return a.give(ctx, c, r, g.facts, g.move, g.choice, g.before)
}
