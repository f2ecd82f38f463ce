package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// state is the progress of a request. The lock of the queue protects it.
type state int

const (
	arrived  state = iota // no pass of the server has examined it yet
	blocked               // a pass found that it cannot start now: it waits
	starting              // its lease is being started; it has left the queue
	ended                 // it was answered, or its caller has disconnected
)

// pending is a request in the queue. A request without Wait is answered by the first pass of the
// server, or as soon as leases without processes have ended.
type pending struct {
	Caller
	Request
	since    time.Time
	state    state
	reason   string // why it waits
	last     error  // why the last pass did not start it
	position int    // the position in the queue that was last reported to the caller

	granted chan grant    // received by the goroutine that called Acquire
	refused chan error    // capacity 1
	left    chan struct{} // closed when the caller has disconnected
}

func newPending(c Caller, r Request, since time.Time) *pending {
	return &pending{
		Caller: c, Request: r, since: since,
		granted: make(chan grant), refused: make(chan error, 1), left: make(chan struct{}),
	}
}

func (p *pending) queued(position int) Queued {
	return Queued{
		Position: position, PID: p.PID, UID: p.UID, Partitions: p.Partitions, GPUs: p.GPUs, Names: p.List(), Make: p.Make,
		Kind: p.Kind, Of: p.Of, Time: p.Time, Since: p.since, Reason: p.reason,
	}
}

// rejoin is the state of the queue after a restart of the daemon.
type rejoin int

const (
	unneeded rejoin = iota // no caller has reconnected
	open                   // callers reconnect; no waiting request gets a lease
	closed                 // the window for reconnecting has ended
)

// queue contains the requests that have no lease yet.
type queue struct {
	rejoinWindow func() <-chan struct{} // see [Config]; nil: there is no window
	changed      chan struct{}          // capacity 1: the queue or the limits have changed

	mu      sync.Mutex
	list    []*pending // earlier ones first
	rejoin  rejoin
	serving bool // a goroutine serves the queue
}

// add adds a request. A request that is queued again gets its former place, by its time. In the
// window after a restart, requests are placed by the age of their callers' connections. serve is true
// if the caller has to start a goroutine that serves the queue.
func (q *queue) add(p *pending) (serve bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rejoins := p.Wait && p.Seniority > 0
	if q.rejoin == unneeded && rejoins && q.rejoinWindow != nil {
		q.rejoin = open
		go q.closeWindow()
	}
	at := len(q.list)
	if i := slices.IndexFunc(q.list, func(o *pending) bool { return o.since.After(p.since) }); i >= 0 {
		at = i
	}
	if q.rejoin == open && rejoins {
		if i := slices.IndexFunc(q.list, func(o *pending) bool { return o.Seniority == 0 || o.Seniority > p.Seniority }); i >= 0 {
			at = i
		}
	}
	q.list = slices.Insert(q.list, at, p)
	q.wake()
	serve = !q.serving
	q.serving = true
	return serve
}

func (q *queue) closeWindow() {
	<-q.rejoinWindow()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rejoin = closed
	q.wake()
}

// wake makes the server examine the queue again.
func (q *queue) wake() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// round is the state of the queue for one pass of the server.
type round struct {
	list      []*pending // in the order in which it is served
	rejoining bool       // callers reconnect after a restart
}

// begin returns the queue for a pass. If it is empty, the goroutine that serves the queue must end.
func (q *queue) begin() round {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.changed:
	default:
	}
	q.serving = len(q.list) > 0
	return round{q.ordered(), q.rejoin == open}
}

// ordered returns the queue in the order in which it is served: root's requests before those of
// users, otherwise in the order of arrival. The caller holds the lock.
func (q *queue) ordered() []*pending {
	class := func(p *pending) int { return min(int(p.UID), 1) }
	out := slices.Clone(q.list)
	slices.SortStableFunc(out, func(x, y *pending) int { return cmp.Compare(class(x), class(y)) })
	return out
}

// waiting returns the requests that wait, in order. The caller holds the lock.
func (q *queue) waiting() []*pending {
	return slices.DeleteFunc(q.ordered(), func(p *pending) bool { return !p.Wait })
}

// anyWaits reports whether a request waits, be it only for the ends of leases without processes.
func (q *queue) anyWaits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.list, func(p *pending) bool { return p.Wait || p.state == blocked })
}

// others returns the number of requests of other users that wait.
func (q *queue) others(uid uint32) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(slices.DeleteFunc(q.waiting(), func(p *pending) bool { return p.UID == uid }))
}

// leave removes a request whose caller has disconnected.
func (q *queue) leave(p *pending) {
	close(p.left)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(p, ended)
	q.wake()
}

// expire ends a request at the limit of its wait. It returns nil if its lease is being started or it was answered.
func (q *queue) expire(p *pending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.state != arrived && p.state != blocked {
		return nil
	}
	close(p.left)
	q.end(p, ended)
	q.wake()
	return &WaitLimitError{p.last}
}

// end removes a request from the queue. The caller holds the lock.
func (q *queue) end(p *pending, s state) {
	p.state = s
	q.list = slices.DeleteFunc(q.list, func(o *pending) bool { return o == p })
}

// take removes a request whose lease starts. It returns false if the request has ended.
func (q *queue) take(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.state == ended {
		return false
	}
	q.end(p, starting)
	return true
}

// refuse answers a request with an error.
func (q *queue) refuse(p *pending, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.state != ended {
		q.end(p, ended)
		p.refused <- err
	}
}

// block records why a request does not start now. A request without Wait is refused, unless the reason is an
// [endingError].
func (q *queue) block(p *pending, err error) {
	if _, ending := errors.AsType[*endingError](err); !p.Wait && !ending {
		q.refuse(p, err)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.state != ended {
		p.state, p.reason, p.last = blocked, brief(err), err
	}
}

func (q *queue) isBlocked(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.state == blocked
}

// entries returns the requests that wait, in the order in which they are served.
func (q *queue) entries() []Queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := []Queued{}
	for i, p := range q.waiting() {
		out = append(out, p.queued(i+1))
	}
	return out
}

// remove removes the waiting requests of a process. Root may remove any request, other users only
// their own.
func (q *queue) remove(uid uint32, pid int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	found := false
	for _, p := range q.waiting() {
		if p.PID != pid {
			continue
		}
		if uid != 0 && uid != p.UID {
			return fmt.Errorf("request %d is user %d's; only that user and root can remove it", pid, p.UID)
		}
		found = true
		q.end(p, ended)
		p.refused <- &RemovedError{uid}
	}
	if !found {
		return fmt.Errorf("no request %d in the queue; it may have started or ended", pid)
	}
	q.wake()
	return nil
}

// reportPositions calls [Request.Moved] of each request whose position has changed.
func (q *queue) reportPositions() {
	q.mu.Lock()
	var reports []func()
	waiting := q.waiting()
	for i, p := range waiting {
		if p.state != blocked || p.position == i+1 || p.Moved == nil {
			continue
		}
		p.position = i + 1
		entry := p.queued(i + 1)
		reports = append(reports, func() { p.Moved(entry, len(waiting)) })
	}
	q.mu.Unlock()
	for _, report := range reports {
		report()
	}
}
