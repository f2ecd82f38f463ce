package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/admission"
)

// How many calls may be under way: of one user, and of all users but root. A user may
// have more numbers than one (subuid(5)), hence the second.
const (
	ofOne = 16
	ofAll = 256
)

// How many of those who may have leases may stand in line for them, for as long as it
// takes: as many jobs as there are partitions, and more. They take no room of the others,
// so that with all his jobs there a user can still look, and release one. The bus lets one
// connection listen for the ends of 512 others, and all who ask are listened for.
const (
	inLineOfOne = 128
	inLineOfAll = 256
)

// pause is what is between two queries of one user, in the long run.
const pause = time.Second / 2

// newLimiter returns the admission of all calls. Rates: a query costs the daemon and PID 1
// some milliseconds each, so two a second; leases are for those who are allowed to have
// them, and after a restart of the daemon all who wait come back at the same time.
func newLimiter() *admission.Limiter {
	return admission.New(admission.Limits{
		Calls: ofOne, AllCalls: ofAll, Waiters: inLineOfOne, AllWaiters: inLineOfAll, RootExempt: true,
		Rates: map[admission.Kind]admission.Rate{
			admission.Query:  {Burst: ofOne, Interval: pause},
			admission.Change: {Burst: ofOne, Interval: pause},
			admission.Lease:  {Burst: inLineOfOne, Interval: time.Second / 10},
		},
	})
}

// turns has what is done one at a time done in turn: first a user's own calls among
// each other, and then one of each user's. So a user's call waits for one of every
// other user's, however many these make. Root's wait for root's.
type turns struct {
	mu    sync.Mutex
	users map[uint32]*turn
	next  chan struct{} // of 1
}

// turn is one user's; waiting counts who holds it or waits for it.
type turn struct {
	free    chan struct{} // of 1
	waiting int
}

func newTurns() *turns {
	return &turns{users: make(map[uint32]*turn), next: make(chan struct{}, 1)}
}

// take waits for the user's turn.
func (t *turns) take(ctx context.Context, uid uint32) (leave func(), err error) {
	own := t.queue(uid)
	drop := func() { t.drop(uid, own) }
	select {
	case own.free <- struct{}{}:
	case <-ctx.Done():
		drop()
		return nil, ctx.Err()
	}
	if uid == 0 {
		return func() { <-own.free; drop() }, nil
	}
	select {
	case t.next <- struct{}{}:
	case <-ctx.Done():
		<-own.free
		drop()
		return nil, ctx.Err()
	}
	return func() { <-t.next; <-own.free; drop() }, nil
}

func (t *turns) queue(uid uint32) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.users[uid]
	if own == nil {
		own = &turn{free: make(chan struct{}, 1)}
		t.users[uid] = own
	}
	own.waiting++
	return own
}

func (t *turns) drop(uid uint32, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.waiting--; own.waiting == 0 {
		delete(t.users, uid)
	}
}

// callers remembers who is behind the names of connections. The bus never gives a
// name twice, so what is remembered stays true; past some number it is asked again.
type callers struct {
	mu    sync.Mutex
	known map[string]credentials
}

// credentials are whose a connection is, as it was made.
type credentials struct {
	uid    uint32
	pid    int      // to tell of it and to be held to its start; 0 where the bus does not tell
	groups []uint32 // none where it does not tell
}

const remembered = 1024

// of asks the bus who is behind a call, unless it is known.
func (c *callers) of(ctx context.Context, conn *dbus.Conn, sender string) (credentials, error) {
	c.mu.Lock()
	who, ok := c.known[sender]
	c.mu.Unlock()
	if ok {
		return who, nil
	}
	who, err := credentialsOf(ctx, conn, sender)
	if err != nil {
		return who, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= remembered {
		c.known = make(map[string]credentials)
	}
	c.known[sender] = who
	return who, nil
}

func credentialsOf(ctx context.Context, conn *dbus.Conn, sender string) (who credentials, err error) {
	var all map[string]dbus.Variant
	if err := conn.BusObject().CallWithContext(ctx, busName+".GetConnectionCredentials", 0, sender).Store(&all); err != nil {
		return who, err
	}
	uid, ok := all["UnixUserID"].Value().(uint32)
	if !ok {
		return who, errors.New("the bus does not tell whose connection it is")
	}
	pid, _ := all["ProcessID"].Value().(uint32)
	groups, _ := all["UnixGroupIDs"].Value().([]uint32)
	return credentials{uid, int(pid), groups}, nil
}
