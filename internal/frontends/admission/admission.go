// Package admission limits how much each user may have a service do: how many calls run
// at a time, how many wait for a lease, and how often calls of one kind are served. It
// knows no protocol. A caller is a user id; which one counts for a process is decided
// before.
package admission

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Kind is a kind of call that has a rate of its own.
type Kind string

// The kinds of calls.
const (
	Status Kind = "status" // shared by all callers: one query answers all who wait for it
	Query  Kind = "query"  // changes nothing, and is done for this caller alone
	Change Kind = "change" // partitions GPUs or reads the configuration again
	Lease  Kind = "lease"  // gives or ends a lease
)

// Rate is how often calls are served: Burst in quick succession, then one in each Interval.
// The zero value does not limit.
type Rate struct {
	Burst    int
	Interval time.Duration
}

// Limits are the bounds of a [Limiter].
type Limits struct {
	Calls, AllCalls     int // at a time, of one user and of all
	Waiters, AllWaiters int // for a lease, of one user and of all; 0: there are none
	Rates               map[Kind]Rate
	RootExempt          bool // nothing limits user 0
}

// LimitError is a rejection that passes by itself.
type LimitError struct{ Text string }

func (e *LimitError) Error() string { return e.Text }

// Limiter admits calls. Each user has a budget of its own, so that one who calls without
// end keeps nobody else out.
type Limiter struct {
	limits Limits

	mu       sync.Mutex
	users    map[uint32]*user
	calls    int
	waiters  int
	rejected map[uint32]*rejections
}

// user is the budget of one user.
type user struct {
	calls, waiters int
	paces          map[Kind]*Pace
}

// New returns a limiter to which nobody has come yet.
func New(l Limits) *Limiter {
	return &Limiter{limits: l, users: make(map[uint32]*user), rejected: make(map[uint32]*rejections)}
}

// Enter admits a call: immediately, or when the rate of its kind allows. The caller calls
// leave once, when the call is over.
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

// Join admits a call that waits for a lease, as long as it takes. It does not count as one
// that runs, so that a user whose calls all wait can still make others.
func (l *Limiter) Join(ctx context.Context, uid uint32) (leave func(), err error) {
	leave, err = l.Wait(uid)
	if err != nil || l.exempt(uid) {
		return leave, err
	}
	if err := l.pace(uid, Lease).Wait(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// Wait is Join for a call that was admitted by Enter before.
func (l *Limiter) Wait(uid uint32) (leave func(), err error) {
	if l.exempt(uid) {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(uid)
	if u.waiters >= l.limits.Waiters || l.waiters >= l.limits.AllWaiters {
		return nil, &LimitError{fmt.Sprintf("too many wait for leases: %d of yours, %d in all", u.waiters, l.waiters)}
	}
	u.waiters++
	l.waiters++
	return func() { l.end(uid, func(u *user) { u.waiters--; l.waiters-- }) }, nil
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

// remembered is how many users are kept before those are forgotten whose budget is whole.
const remembered = 1024

// of returns a user's budget. Callers hold mu.
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

// Pace spaces out what is done at a [Rate].
type Pace struct {
	rate Rate

	mu   sync.Mutex
	next time.Time // when the last one admitted would have been due without a burst
}

// NewPace returns a pace whose burst is unused.
func NewPace(r Rate) *Pace { return &Pace{rate: r} }

// Wait takes the next place, and waits until it is due.
func (p *Pace) Wait(ctx context.Context) error {
	if p.rate.Interval == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(p.rate.Interval)
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

// LogInterval is how often the rejections of one user are logged.
const LogInterval = time.Minute

// rejections are those of one user since one was logged.
type rejections struct {
	logged     time.Time
	suppressed int
}

// Rejected reports whether this rejection of a user is to be logged, and how many were not
// since the last one that was.
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
