// Package admission limits the calls of each user: how many run concurrently, how many wait
// for a lease, and how often calls of one kind start. It knows no protocol: the frontend
// determines the user id of a caller.
package admission

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Kind is a kind of call with its own rate.
type Kind string

// Kinds of calls.
const (
	Status Kind = "status" // shared by all callers: one query serves all that wait for it
	Query  Kind = "query"  // a query for this caller only
	Change Kind = "change" // partitions GPUs or reloads the configuration
	Lease  Kind = "lease"  // grants or ends a lease
	Make   Kind = "make"   // grants a lease for which a partition is created
	Read   Kind = "read"   // reads what the daemon has published
)

// Reply is the kind of the replies' bytes. One unit of its rate is a KiB.
const Reply Kind = "reply"

// Rate limits how often calls start: Burst calls without a delay, then one in each Interval. The
// zero value means no limit.
type Rate struct {
	Burst    int
	Interval time.Duration
}

// Limits are the limits of a [Limiter].
type Limits struct {
	Calls, AllCalls     int // concurrent calls of one user and of all users
	Waiters, AllWaiters int // calls that wait for a lease, of one user and of all users; 0: none may wait. The first one of a user may exceed AllWaiters by half of it
	Rates               map[Kind]Rate
	RootExempt          bool // user 0 has no limit
}

// LimitError is returned if a limit is reached. A later call may succeed.
type LimitError struct{ Text string }

func (e *LimitError) Error() string { return e.Text }

// Limiter admits calls. Each user has its own budget, so that one user cannot block the
// others.
type Limiter struct {
	limits Limits

	mu       sync.Mutex
	users    map[uint32]*user
	calls    int
	waiters  int
	rejected map[uint32]*rejections
}

// user counts the calls of one user.
type user struct {
	calls, waiters int
	paces          map[Kind]*Pace
}

// New returns a limiter without any users.
func New(l Limits) *Limiter {
	return &Limiter{limits: l, users: make(map[uint32]*user), rejected: make(map[uint32]*rejections)}
}

// Enter admits a call, immediately or when the rate of its kind permits it. The caller must
// call leave once, after the call.
func (l *Limiter) Enter(ctx context.Context, uid uint32, kind Kind) (leave func(), err error) {
	if l.exempt(uid) {
		return func() {}, nil
	}
	pace, err := l.begin(uid, kind)
	if err != nil {
		return nil, err
	}
	leave = func() { l.end(uid, func(u *user) { u.calls--; l.calls-- }) }
	if err := pace.Wait(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// Join admits a call that will wait for a lease, possibly for days. The call does not count as a
// running one, so a user with many waiting calls can still make others.
func (l *Limiter) Join(ctx context.Context, uid uint32, kind Kind) (leave func(), err error) {
	leave, err = l.Wait(uid)
	if err != nil || l.exempt(uid) {
		return leave, err
	}
	if err := l.pace(uid, kind).Wait(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// Wait is Join for a call that Enter has already admitted.
func (l *Limiter) Wait(uid uint32) (leave func(), err error) {
	if l.exempt(uid) {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(uid)
	all := l.limits.AllWaiters
	if u.waiters == 0 { // users who wait do not exclude one who does not
		all += all / 2
	}
	if u.waiters >= l.limits.Waiters || l.waiters >= all {
		return nil, &LimitError{fmt.Sprintf("too many wait for leases: %d of yours, %d in all", u.waiters, l.waiters)}
	}
	u.waiters++
	l.waiters++
	return func() { l.end(uid, func(u *user) { u.waiters--; l.waiters-- }) }, nil
}

// Send returns when a reply of this size may be sent to a user, by the rate of [Reply].
func (l *Limiter) Send(ctx context.Context, uid uint32, size int) error {
	if l.exempt(uid) {
		return nil
	}
	return l.pace(uid, Reply).take(ctx, size>>10+1)
}

func (l *Limiter) exempt(uid uint32) bool { return uid == 0 && l.limits.RootExempt }

func (l *Limiter) begin(uid uint32, kind Kind) (*Pace, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(uid)
	switch {
	case u.calls >= l.limits.Calls:
		return nil, &LimitError{"too many of your calls are under way; try again"}
	case l.calls >= l.limits.AllCalls:
		return nil, &LimitError{"too many calls are under way; try again"}
	}
	u.calls++
	l.calls++
	return u.pace(kind, l.limits.Rates[kind]), nil
}

func (l *Limiter) pace(uid uint32, kind Kind) *Pace {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(uid).pace(kind, l.limits.Rates[kind])
}

func (l *Limiter) end(uid uint32, change func(*user)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.users[uid]; u != nil {
		change(u)
	}
}

// remembered is the number of users from which users without running calls are removed.
const remembered = 1024

// of returns the counters of a user. The caller must hold mu.
func (l *Limiter) of(uid uint32) *user {
	if u := l.users[uid]; u != nil {
		return u
	}
	if len(l.users) >= remembered {
		for id, u := range l.users {
			if u.idle() {
				delete(l.users, id)
			}
		}
	}
	u := &user{paces: make(map[Kind]*Pace)}
	l.users[uid] = u
	return u
}

func (u *user) pace(kind Kind, r Rate) *Pace {
	p := u.paces[kind]
	if p == nil {
		p = NewPace(r)
		u.paces[kind] = p
	}
	return p
}

func (u *user) idle() bool {
	for _, p := range u.paces {
		if !p.idle() {
			return false
		}
	}
	return u.calls == 0 && u.waiters == 0
}

// Pace limits an action to a [Rate].
type Pace struct {
	rate Rate

	mu   sync.Mutex
	next time.Time // when the next action would be due if the rate had no burst
}

// NewPace returns a pace that permits a full burst.
func NewPace(r Rate) *Pace { return &Pace{rate: r} }

// Wait waits until the rate permits one more action.
func (p *Pace) Wait(ctx context.Context) error { return p.take(ctx, 1) }

// take waits until the rate permits n more actions.
func (p *Pace) take(ctx context.Context, n int) error {
	if p.rate.Interval == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(n) * p.rate.Interval)
	early := p.next.Sub(now) - time.Duration(p.rate.Burst)*p.rate.Interval
	p.mu.Unlock()
	if early <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(early):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Pace) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next.Before(time.Now())
}

// LogInterval is the minimum interval between two logged rejections of one user.
const LogInterval = time.Minute

// rejections are the rejections of one user since the last logged one.
type rejections struct {
	logged     time.Time
	suppressed int
}

// Rejected reports whether to log a rejection of a user. suppressed is the number of rejections that
// were not logged since the last logged one.
func (l *Limiter) Rejected(uid uint32) (suppressed int, log bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	r := l.rejected[uid]
	if r != nil && now.Sub(r.logged) < LogInterval {
		r.suppressed++
		return 0, false
	}
	if r == nil {
		if len(l.rejected) >= remembered {
			for id, one := range l.rejected {
				if now.Sub(one.logged) >= LogInterval {
					delete(l.rejected, id)
				}
			}
		}
		r = new(rejections)
		l.rejected[uid] = r
	}
	suppressed = r.suppressed
	*r = rejections{logged: now}
	return suppressed, true
}
