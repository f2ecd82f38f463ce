package dbusapi

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"dcm/internal/frontends/admission"
	"dcm/internal/linux/caller"
	"dcm/internal/linux/dbusconn"
)

// How many calls may be under way: of one user, and of all users but root. A user may
// have more numbers than one (subuid(5)), hence the second.
const (
	maxUserCalls = 16
	maxCalls     = 256
)

// How many of those who may have leases may stand in line for them, for as long as it
// takes: as many jobs as there are partitions, and more. They take no room of the others,
// so that with all his jobs there a user can still look, and release one. The bus lets one
// connection listen for the ends of 512 others, and all who ask are listened for.
const (
	maxUserWaiters = 128
	maxWaiters     = 256
)

// queryInterval is what is between two queries of one user, in the long run.
const queryInterval = time.Second / 2

// newLimiter returns the admission of all calls. Rates: a query costs the daemon and PID 1
// some milliseconds each, so two a second; leases are for those who are allowed to have
// them, and after a restart of the daemon all who wait come back at the same time.
func newLimiter() *admission.Limiter {
	return admission.New(admission.Limits{
		Calls: maxUserCalls, AllCalls: maxCalls, Waiters: maxUserWaiters, AllWaiters: maxWaiters, RootExempt: true,
		Rates: map[admission.Kind]admission.Rate{
			admission.Query:  {Burst: maxUserCalls, Interval: queryInterval},
			admission.Change: {Burst: maxUserCalls, Interval: queryInterval},
			admission.Lease:  {Burst: maxUserWaiters, Interval: time.Second / 10},
		},
	})
}

// fairQueue has what is done one at a time done in turn: first a user's own calls among
// each other, and then one of each user's. So a user's call waits for one of every
// other user's, however many these make. Root's wait for root's.
type fairQueue struct {
	mu    sync.Mutex
	users map[uint32]*userQueue
	next  chan struct{} // of 1
}

// userQueue is one user's; waiting counts who holds it or waits for it.
type userQueue struct {
	free    chan struct{} // of 1
	waiting int
}

func newFairQueue() *fairQueue {
	return &fairQueue{users: make(map[uint32]*userQueue), next: make(chan struct{}, 1)}
}

// take waits for the user's turn.
func (t *fairQueue) take(ctx context.Context, uid uint32) (leave func(), err error) {
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

func (t *fairQueue) queue(uid uint32) *userQueue {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.users[uid]
	if own == nil {
		own = &userQueue{free: make(chan struct{}, 1)}
		t.users[uid] = own
	}
	own.waiting++
	return own
}

func (t *fairQueue) drop(uid uint32, own *userQueue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.waiting--; own.waiting == 0 {
		delete(t.users, uid)
	}
}

// credentialsCache remembers who is behind the names of connections. A bus never gives a name
// twice, so what is remembered stays true for as long as the connection to it; past some
// number it is asked again.
type credentialsCache struct {
	mu    sync.Mutex
	conn  *dbus.Conn // to the bus that gave the names
	known map[string]credentials
}

// credentials are whose a connection is, as it was made.
type credentials struct {
	uid    uint32
	owner  uint32   // the user that its calls count for; uid unless it is in a user namespace
	pid    int      // to report; 0 where the bus does not tell
	groups []uint32 // none where it does not tell

	process *caller.Process // open where it was identified for this very call, else nil
}

const maxCachedCredentials = 1024

// of asks the bus who is behind a call, unless it is known.
func (c *credentialsCache) of(ctx context.Context, conn *dbusconn.Conn, sender string) (credentials, error) {
	c.mu.Lock()
	who, ok := c.known[sender]
	ok = ok && c.conn == conn.Conn
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
	if c.known == nil || len(c.known) >= maxCachedCredentials || c.conn != conn.Conn {
		c.conn, c.known = conn.Conn, make(map[string]credentials)
	}
	kept := who
	kept.process = nil
	c.known[sender] = kept
	return who, nil
}

// proc is where the kernel shows the processes of credentialsCache.
const proc = "/proc"

// credentialsOf asks the bus, and identifies the process: by the pidfd that the bus took
// when the connection was made, or where it takes none (as dbus 1.14) by the
// number, before anything else is done.
func credentialsOf(ctx context.Context, conn *dbusconn.Conn, sender string) (credentials, error) {
	msg := &dbus.Message{
		Type: dbus.TypeMethodCall,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(busName), dbus.FieldPath: dbus.MakeVariant(busPath), dbus.FieldInterface: dbus.MakeVariant(busName),
			dbus.FieldMember: dbus.MakeVariant("GetConnectionCredentials"), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf("")),
		},
		Body: []any{sender},
	}
	answer, files := conn.Exchange(ctx, msg)
	var all map[string]dbus.Variant
	if err := answer.Store(&all); err != nil {
		closeAll(files)
		return credentials{}, err
	}
	uid, ok := all["UnixUserID"].Value().(uint32)
	if !ok {
		closeAll(files)
		return credentials{}, errors.New("the bus does not report the user of the connection")
	}
	pid, _ := all["ProcessID"].Value().(uint32)
	groups, _ := all["UnixGroupIDs"].Value().([]uint32)
	who := credentials{uid: uid, owner: uid, pid: int(pid), groups: groups}
	if pid == 0 {
		closeAll(files)
		return who, nil
	}
	var pidfd *os.File
	if index, ok := all["ProcessFD"].Value().(dbus.UnixFDIndex); ok && int(index) < len(files) {
		pidfd, files = files[index], slices.Delete(files, int(index), int(index)+1)
	}
	closeAll(files)
	return identified(who, pidfd), nil
}

// identified adds the process, by its pidfd or, where that is nil, by its number.
func identified(who credentials, pidfd *os.File) credentials {
	var err error
	if pidfd != nil {
		who.process, err = caller.FromFD(proc, pidfd, who.pid, who.uid)
	} else {
		who.process, err = caller.Open(proc, who.pid, who.uid)
	}
	switch {
	case err == nil:
		who.owner = who.process.Owner
	case who.uid != 0: // it may be one of the numbers of any user
		who.owner = caller.Unidentified
	}
	return who
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
