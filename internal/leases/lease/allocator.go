package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// Config configures an [Allocator].
type Config struct {
	Host   Host
	Common []string // device nodes for partitions without companion nodes: "/dev/kfd"

	// RejoinWindow is called after a restart of the daemon, when the first caller reconnects that
	// waited before. It returns a channel that is closed when the window for reconnecting ends.
	// Until then no waiting request gets a lease, and requests are ordered by the age of their
	// callers' connections. The queue itself is not stored. nil: there is no window.
	RejoinWindow func() <-chan struct{}

	// Member reports whether a user is in a group. nil: no user is in any group.
	Member func(uid uint32, group string) bool
}

// Allocator allocates partitions, one lease at a time.
type Allocator struct {
	host    Host
	policy  *policy
	queue   *queue
	starter *starter
	server  *server

	extending unitLocks // held by the calls of Extend
}

// New returns an allocator without limits.
func New(c Config) *Allocator {
	a := &Allocator{
		host:    c.Host,
		policy:  &policy{member: c.Member},
		queue:   &queue{rejoinWindow: c.RejoinWindow, changed: make(chan struct{}, 1)},
		starter: &starter{c.Host, c.Common},
	}
	a.server = &server{host: c.Host, queue: a.queue, policy: a.policy, starter: a.starter}
	return a
}

// Limit sets the limits. They also apply to requests that are in the queue already.
func (a *Allocator) Limit(l Limits) {
	a.policy.set(l)
	a.queue.wake()
}

// Acquire chooses partitions and moves the caller into a scope that may open only these. With
// Wait the request stays in the queue until enough partitions are free, or until ctx ends.
func (a *Allocator) Acquire(ctx context.Context, c Caller, r Request) (Lease, error) {
	setting, err := a.policy.complete(c, &r)
	if err != nil {
		return Lease{}, err
	}
	l, kept := a.keep(ctx, c, r)
	if !kept {
		if l, err = a.request(ctx, c, r); err != nil {
			return Lease{}, err
		}
	}
	l.TimeBy = setting
	return l, nil
}

// Consider returns the partitions that a request would get now, and allocates none.
func (a *Allocator) Consider(ctx context.Context, c Caller, r Request) (placement.Choice, error) {
	if _, err := a.policy.complete(c, &r); err != nil {
		return placement.Choice{}, err
	}
	snapshot, err := a.host.Partitions.Snapshot(ctx)
	if err != nil {
		return placement.Choice{}, fmt.Errorf("cannot read the allocations: %w", err)
	}
	at := locate(a.host.Processes, c)
	if err := a.policy.impossible(snapshot, c, r, at); err != nil {
		return placement.Choice{}, err
	}
	return a.policy.choose(at.excludeOwn(snapshot), c, r)
}

// Queue returns the requests that wait, in the order in which they are served.
func (a *Allocator) Queue() []Queued { return a.queue.entries() }

// Remove removes the request of a process from the queue. Root may remove any request, other users
// only their own.
func (a *Allocator) Remove(uid uint32, pid int) error { return a.queue.remove(uid, pid) }

// keepWindow limits the age of a lease with a time limit that keep returns.
const keepWindow = time.Minute

// keep returns the caller's present lease if it already fulfils the request. This completes a call
// that was interrupted: if the daemon ended after it had moved the caller into the scope, the caller
// calls again. keep neither waits nor delays a drain. A lease that is held is exchanged for a new one.
func (a *Allocator) keep(ctx context.Context, c Caller, r Request) (l Lease, ok bool) {
	at := locate(a.host.Processes, c)
	if r.Hold || !at.own || !a.hasTerms(ctx, at.unit, r) {
		return Lease{}, false
	}
	switch {
	case partition.IsMode(r.Make):
		return a.keepMode(ctx, c, r, at)
	case r.Make != "":
		return a.keepMade(ctx, c, r, at)
	}
	snapshot, err := a.host.Partitions.Snapshot(ctx)
	if err != nil {
		return Lease{}, false
	}
	allocations, others := Allocations(snapshot), make(map[string]bool)
	var kept []runstate.Part
	for _, h := range allocations {
		if others[h.Name] = !slices.Contains(h.Units, at.unit); !others[h.Name] {
			kept = append(kept, h.Part)
		}
		if h.Made == at.unit || h.Switched.IsMode() && !others[h.Name] {
			return Lease{}, false
		}
	}
	w := r.Want
	w.Late = snapshot.Late
	if w.Kinds, err = r.Sought.Match(KindsOf(snapshot.Parts)); err != nil {
		return Lease{}, false
	}
	mine, err := placement.Choose(all(allocations), others, w)
	best, lack := a.policy.choose(at.excludeOwn(snapshot), c, r)
	if err != nil || lack != nil || len(mine.Partitions) != len(kept) || !mine.AsGood(best, w.Place) || a.host.Processes.Check(c) != nil {
		return Lease{}, false
	}
	l = Lease{Unit: at.unit, Choice: mine, Nodes: nodesOf(mine, a.starter.common)}
	a.starter.protect(ctx, &l, r)
	return l, true
}

// hasTerms reports whether a lease has the kind and the time limit of the request.
func (a *Allocator) hasTerms(ctx context.Context, unit string, r Request) bool {
	n, _ := unitname.ParseLease(unit)
	if n.Kind != r.Kind || n.Of != r.Of {
		return false
	}
	terms, err := a.host.Scopes.Terms(ctx, []string{unit})
	term, known := terms[unit]
	return err == nil && known && term.Limit == r.Time && (r.Time <= 0 || time.Since(term.Began) <= keepWindow)
}

// maxExclusive limits how many leases are tried for one exclusive request. A user can watch for the
// scope of a new lease and open its partitions before the guard protects them, each time.
const maxExclusive = 4

// request queues a request and returns its lease. If other processes have the partitions of an
// exclusive lease open, it replaces the lease by one with other partitions. If no others are free,
// the caller keeps the lease, and its notes name the processes.
func (a *Allocator) request(ctx context.Context, c Caller, r Request) (Lease, error) {
	l, opened, err := a.attempt(ctx, c, r)
	if err != nil {
		return Lease{}, err
	}
	r.Wait = false
	for n := 1; opened && n < maxExclusive; n++ {
		var next Lease
		if next, opened, err = a.attempt(ctx, c, r); err != nil {
			if unit, _ := a.host.Processes.Within(c.PID); unit == l.Unit {
				return l, nil
			}
			return Lease{}, err
		}
		next.Replaced = append(l.Replaced, l.Unit)
		l = next
	}
	return l, nil
}

// notMovedDelay is the delay before a request is queued again after [ErrNotMoved] or, repeatedly, [ErrEnding].
const notMovedDelay = time.Second

// attempt queues a request. If a daemon-reexec prevents the start of a waiting request, the request
// returns to its place in the queue instead of failing. If its mode is just being switched back, each
// request is queued again: it gets another GPU, if one can be switched. opened is as in [starter.protect].
func (a *Allocator) attempt(ctx context.Context, c Caller, r Request) (l Lease, opened bool, err error) {
	since := time.Now()
	for n := 1; ; n++ {
		l, opened, err = a.enqueue(ctx, newPending(c, r, since))
		ending := errors.Is(err, ErrEnding)
		if again := ending && n < maxStarts || r.Wait && (ending || errors.Is(err, ErrNotMoved)); !again {
			return l, opened, err
		}
		delay := notMovedDelay
		if ending && n == 1 {
			delay = 0 // the next snapshot shows which mode is being switched back
		}
		select {
		case <-ctx.Done():
			return Lease{}, false, fmt.Errorf("no longer waiting: %w", ctx.Err())
		case <-time.After(delay):
		}
		if err := a.host.Processes.Check(c); err != nil {
			return Lease{}, false, err
		}
	}
}

// enqueue queues a request once.
func (a *Allocator) enqueue(ctx context.Context, p *pending) (l Lease, opened bool, err error) {
	if a.queue.add(p) {
		go a.server.serve(context.WithoutCancel(ctx))
	}
	limit, stop := p.limit()
	defer stop()
	for {
		select {
		case g := <-p.granted:
			if l, err = a.use(ctx, p, g); err == nil {
				opened = a.starter.protect(ctx, &l, p.Request)
			}
			return l, opened, err
		case err := <-p.refused:
			return Lease{}, false, err
		case <-limit:
			if err := a.queue.expire(p); err != nil {
				return Lease{}, false, err
			}
		case <-ctx.Done():
			a.queue.leave(p)
			return Lease{}, false, fmt.Errorf("no longer waiting: %w", ctx.Err())
		}
	}
}

// limit returns a channel that receives at the limit of the wait, and a function that frees it.
func (p *pending) limit() (<-chan time.Time, func() bool) {
	if !p.Wait || p.WaitLimit <= 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(time.Until(p.since.Add(p.WaitLimit)))
	return t.C, t.Stop
}

// use starts the lease of a grant. The server keeps the partitions locked until use returns.
func (a *Allocator) use(ctx context.Context, p *pending, g grant) (Lease, error) {
	defer close(g.done)
	if err := a.host.Processes.Check(p.Caller); err != nil {
		return Lease{}, err
	}
	return a.starter.start(ctx, p.Caller, p.Request, g)
}
