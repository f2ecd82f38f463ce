package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/godbus/dbus/v5"
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

// crowd lets callers in: each user's own apart, so that one who calls without end
// keeps nobody else out, and root always.
type crowd struct {
	mu     sync.Mutex
	inside map[uint32]int
	all    int

	inLine map[uint32]int
	line   int
}

func (c *crowd) enter(uid uint32) (leave func(), err error) {
	if uid == 0 {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.inside[uid] >= ofOne:
		return nil, fault(errorLimit, "too many of your calls are under way; try again")
	case c.all >= ofAll:
		return nil, fault(errorLimit, "too many calls are under way; try again")
	}
	if c.inside == nil {
		c.inside = make(map[uint32]int)
	}
	c.inside[uid]++
	c.all++
	return func() { c.leave(uid) }, nil
}

func (c *crowd) leave(uid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.inside[uid]--; c.inside[uid] == 0 {
		delete(c.inside, uid)
	}
}

// join lets somebody into the line.
func (c *crowd) join(uid uint32) (leave func(), err error) {
	if uid == 0 {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inLine[uid] >= inLineOfOne || c.line >= inLineOfAll {
		return nil, fault(errorLimit, fmt.Sprintf("too many wait for leases: %d of yours, %d in all", c.inLine[uid], c.line))
	}
	if c.inLine == nil {
		c.inLine = make(map[uint32]int)
	}
	c.inLine[uid]++
	c.line++
	return func() { c.quit(uid) }, nil
}

func (c *crowd) quit(uid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line--
	if c.inLine[uid]--; c.inLine[uid] == 0 {
		delete(c.inLine, uid)
	}
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
