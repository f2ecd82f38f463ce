package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Queued is a request that waits, as the queue shows it.
type Queued struct {
	Position   int // from 1
	PID        int // of the waiting process; it identifies the entry
	UID        uint32
	Partitions int // requested; 0 where GPUs is set
	GPUs       int
	Kind       Kind
	Of         int           // of a shared lease: how many may share a partition
	Time       time.Duration // 0 for no limit
	Since      time.Time
	Reason     string // why it waits
}

// RemovedError ends a request that was removed from the queue.
type RemovedError struct{ By uint32 }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("the request was removed from the queue by user %d", e.By)
}

// state is how far a request has come. The keeper's lock protects it.
type state int

const (
	arrived  state = iota // no pass has judged it yet
	blocked               // a pass has judged it: it cannot start now, and waits
	starting              // it is being given its lease, and is in the queue no more
	ended                 // it has its answer, or its caller has gone
)

// pending is a request on its way to a lease. Every request becomes one; one without Wait
// has its answer after the first pass that sees it.
type pending struct {
	Caller
	Request
	since    time.Time
	state    state
	reason   string
	position int // that its caller was told last

	granted chan grant    // taken by its caller's goroutine, which uses it
	refused chan error    // of 1
	left    chan struct{} // closed when its caller has gone
}

// regrouping is the state of the queue after a restart of the daemon.
type regrouping int

const (
	unneeded regrouping = iota // no caller has reconnected
	under                      // callers reconnect; no request that waits is served
	done
)

// join adds a request to the queue and has it served. A request that comes back is placed
// before those that came after it; after a restart, one of an older connection before those
// of younger ones.
func (a *Allocator) join(ctx context.Context, p *pending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rejoin == unneeded && p.Wait && p.Seniority > 0 && a.RejoinWindow != nil {
		a.rejoin = under
		go a.regroup()
	}
	at := len(a.queue)
	if i := slices.IndexFunc(a.queue, func(o *pending) bool { return o.since.After(p.since) }); i >= 0 {
		at = i
	}
	if a.rejoin == under && p.Wait && p.Seniority > 0 {
		if i := slices.IndexFunc(a.queue, func(o *pending) bool { return o.Seniority == 0 || o.Seniority > p.Seniority }); i >= 0 {
			at = i
		}
	}
	a.queue = slices.Insert(a.queue, at, p)
	a.wake()
	if !a.serving {
		a.serving = true
		go a.serve(context.WithoutCancel(ctx))
	}
}

// stir has the queue judged again. The caller holds the lock.
func (a *Allocator) wake() {
	if a.changed == nil {
		a.changed = make(chan struct{}, 1)
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// leave is for a caller that has gone.
func (a *Allocator) leave(p *pending) {
	close(p.left)
	a.mu.Lock()
	defer a.mu.Unlock()
	p.state = ended
	a.dequeue(p)
	a.wake()
}

// drop takes a request out of the queue. The caller holds the lock.
func (a *Allocator) dequeue(p *pending) {
	a.queue = slices.DeleteFunc(a.queue, func(o *pending) bool { return o == p })
}

// refuse answers a request with an error.
func (a *Allocator) refuse(p *pending, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.state == ended {
		return
	}
	p.state = ended
	a.dequeue(p)
	p.refused <- err
}

// block notes why a request does not start now. One that does not wait is answered.
func (a *Allocator) block(p *pending, err error) {
	if !p.Wait {
		a.refuse(p, err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.state != ended {
		p.state, p.reason = blocked, brief(err)
	}
}

// brief is an error without the names of other holders.
func brief(err error) string {
	if short, ok := errors.AsType[*InsufficientError](err); ok {
		return short.Err.Error()
	}
	return err.Error()
}

// regroup ends the time in which callers reconnect after a restart.
func (a *Allocator) regroup() {
	<-a.RejoinWindow()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rejoin = done
	a.wake()
}

// ordered returns the queue in the order in which it is served: root's requests before
// those of users, otherwise as they came. The caller holds the lock.
func (a *Allocator) ordered() []*pending {
	out := slices.Clone(a.queue)
	slices.SortStableFunc(out, func(x, y *pending) int { return cmp.Compare(class(x), class(y)) })
	return out
}

func class(p *pending) int {
	if p.UID == 0 {
		return 0
	}
	return 1
}

// waiting returns the requests that wait, in order. The caller holds the lock.
func (a *Allocator) waiting() []*pending {
	return slices.DeleteFunc(a.ordered(), func(p *pending) bool { return !p.Wait })
}

// Queue lists the requests that wait, in the order in which they are served.
func (a *Allocator) Queue() []Queued {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := []Queued{}
	for i, p := range a.waiting() {
		out = append(out, p.queued(i+1))
	}
	return out
}

func (p *pending) queued(position int) Queued {
	return Queued{
		Position: position, PID: p.PID, UID: p.UID, Partitions: p.Partitions, GPUs: p.GPUs,
		Kind: p.Kind, Of: p.Of, Time: p.Time, Since: p.since, Reason: p.reason,
	}
}

// Remove removes the request of a process from the queue: root any, a user the user's own.
func (a *Allocator) Remove(uid uint32, pid int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := false
	for _, p := range a.waiting() {
		if p.PID != pid {
			continue
		}
		if uid != 0 && uid != p.UID {
			return fmt.Errorf("request %d is user %d's; only that user and root can remove it", pid, p.UID)
		}
		found = true
		p.state = ended
		a.dequeue(p)
		p.refused <- &RemovedError{uid}
	}
	if !found {
		return fmt.Errorf("no request %d in the queue; it may have started or ended", pid)
	}
	a.wake()
	return nil
}

// tell reports to each caller its position, where that has changed.
func (a *Allocator) reportPositions() {
	a.mu.Lock()
	var news []func()
	all := a.waiting()
	for i, p := range all {
		if p.state != blocked || p.position == i+1 || p.Moved == nil {
			continue
		}
		p.position = i + 1
		q := p.queued(i + 1)
		news = append(news, func() { p.Moved(q, len(all)) })
	}
	a.mu.Unlock()
	for _, told := range news {
		told()
	}
}
