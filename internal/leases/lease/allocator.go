package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/caller"
)

// Caller is a process that wants a lease for itself.
type Caller struct {
	UID       uint32 // the user that it counts for
	PID       int
	Process   *caller.Process // as it was when it made the request
	Groups    []string        // names of the groups with limits of their own that the user is in
	Seniority uint64          // of who was there before the keeper: the less, the earlier; else 0
}

// Request is what is asked for.
type Request struct {
	placement.Want
	Sought partition.Criteria // of which kind they are to be; Kinds is made of it
	Kind   Kind
	Wait   bool          // until there is enough
	Time   time.Duration // after which the lease ends; 0 for no limit
	What   string        // the command, for people
	Of     int           // how many may share a partition with Kind [Shared]; 0 for as many as the limits let

	// Moved is called when the request waits, and when its position in the queue, of so
	// many, has changed.
	Moved func(q Queued, of int)
}

// Lease is what was given.
type Lease struct {
	Unit   string
	Choice placement.Choice
	Nodes  []string // all that the scope may open beside what every unit may
	Notes  []string // what the caller should know: limits that were not taken over, no guard

	Replaced []string // exclusive leases that the request had before it, because processes had opened them
}

// Scope is the unit to be made for a caller.
type Scope struct {
	Unit        string
	Description string
	PID         int      // of the caller
	Allow       []string // device nodes
	Time        time.Duration
}

// Host is the machine as the allocator uses it.
type Host interface {
	// Snapshot looks at what is so now.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Prepare is Snapshot, with what is to be known of a process to move it.
	Prepare(ctx context.Context, c Caller) (Snapshot, Move, error)
	// Active reports whether a unit is active, or on the way to or from it.
	Active(ctx context.Context, unit string) (bool, error)
	// Stop ends a unit and whatever is in it.
	Stop(ctx context.Context, unit string) error
	// Check returns an error unless the caller is still there, and has the rights of one
	// user alone.
	Check(c Caller) error
	// LockPartitions keeps the partitions as they are until release is called. It fails with
	// ErrChanging while they are being changed.
	LockPartitions() (release func(), err error)
	// Guard makes the partitions of an exclusive lease open nowhere else. It returns an error
	// if they are not exclusive: an [OpenError] if processes opened them before. The lease is
	// up, and the lock of LockPartitions is free: dcm-guard may have to wait for a run that waits for
	// the lock.
	Guard(ctx context.Context, unit string) error
	// Reachable returns when the nodes of a lease are not guarded for a holder that has ended,
	// or why they still are. Like Guard it needs the lock of LockPartitions to be free.
	Reachable(ctx context.Context, unit string, nodes []string) (why string)
	// LimitMemory limits the GPU memory of a shared lease, in bytes, and returns a text that says
	// what is effective.
	LimitMemory(ctx context.Context, unit string, caps MemoryLimits) string
	// Changed is closed when units have come or gone, or the partitions were changed, since it was
	// called. It is called only while a request waits, until ctx ends.
	Changed(ctx context.Context) <-chan struct{}
	exchange
}

// Move is of one process into a scope.
type Move interface {
	// Start makes the scope, waits until the process is in it, and returns which limits of the
	// process are no longer effective.
	Start(ctx context.Context, s Scope) (notes []string, err error)
	// Undo moves all processes that are in the scope back to where they came from, and
	// ends it when it is empty: what is in it may not be the caller. It kills none.
	Undo(ctx context.Context, unit string) error
	Close()
}

// ErrNotMoved is that of a scope into which systemd has moved no process. In a daemon-reexec
// it forgets which one a queued scope is for.
var ErrNotMoved = errors.New("systemd has moved no process into it")

// ErrChanging is the refusal while GPUs are being partitioned, and ErrDraining while
// somebody waits for that.
var (
	ErrChanging = errors.New("the GPUs are being partitioned")
	ErrDraining = fmt.Errorf("%w when the leases have ended, and until then no new ones are given", ErrChanging)
)

// Allocator gives leases, one at a time.
type Allocator struct {
	Host   Host
	Common []string // nodes that who has a partition gets that names none beside it: "/dev/kfd"

	// Regroup is called when the first caller reconnects that waited before a restart of the
	// daemon. It returns a channel that is closed when the reconnect window ends; until then
	// no request that waits is served, and requests are ordered by the age of their callers'
	// connections. The queue is not persisted. nil: there is no window.
	RejoinWindow func() <-chan struct{}

	// Member reports whether a user is in a group. nil: no user is in any group.
	Member func(uid uint32, group string) bool

	mu      sync.Mutex
	limits  Limits
	rejoin  regrouping
	queue   []*pending // those that came earlier first
	serving bool       // somebody serves the queue
	changed chan struct{}
}

// Limit sets the limits for all requests, those in the queue too.
func (a *Allocator) Limit(l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = l
	a.wake()
}

// Acquire chooses partitions and moves the caller into a scope that may open them and
// no others. With Wait it stays in the queue until there is enough, or until ctx ends.
func (a *Allocator) Acquire(ctx context.Context, c Caller, r Request) (Lease, error) {
	note, err := a.prepare(c, &r)
	if err != nil {
		return Lease{}, err
	}
	l, ok := a.keepLease(ctx, c, r)
	if !ok {
		if l, err = a.wait(ctx, c, r); err != nil {
			return Lease{}, err
		}
	}
	if note != "" {
		l.Notes = append(l.Notes, note)
	}
	return l, nil
}

// prepare settles what the configuration says of a request.
func (a *Allocator) prepare(c Caller, r *Request) (note string, err error) {
	if err := a.shares(r); err != nil {
		return "", err
	}
	return a.limitTime(c, r)
}

// Consider returns the partitions that a request would get now, and allocates none.
func (a *Allocator) Consider(ctx context.Context, c Caller, r Request) (placement.Choice, error) {
	if _, err := a.prepare(c, &r); err != nil {
		return placement.Choice{}, err
	}
	snapshot, err := a.Host.Snapshot(ctx)
	if err != nil {
		return placement.Choice{}, fmt.Errorf("cannot tell who has which partition: %w", err)
	}
	at := a.locate(c)
	if err := a.impossible(snapshot, c, r, at); err != nil {
		return placement.Choice{}, err
	}
	return a.choose(at.excludeOwn(snapshot), c, r)
}

// Release ends a lease and whatever runs in it: root any, a user his own.
func (a *Allocator) Release(ctx context.Context, uid uint32, unit string) error {
	name, ok := ParseName(unit)
	if !ok {
		return fmt.Errorf("%q is not the name of a lease, such as %s", unit, Name{Kind: Confined, UID: 1000, ID: "4f1c09aa"})
	}
	if uid != 0 && uid != name.UID { // before any work: anybody may call
		return fmt.Errorf("%s is the lease of user %d, which that user and root can end", unit, name.UID)
	}
	active, err := a.Host.Active(ctx, unit)
	if err != nil {
		return err
	}
	if !active {
		return fmt.Errorf("there is no lease %s; it may have ended", unit)
	}
	return a.Host.Stop(ctx, unit)
}

// attempts is how often a scope is made for a caller that systemd forgets.
const attempts = 5

// give has the scope made. The caller is checked again afterwards: a systemd that takes
// process ids alone may have moved another process that had the number by then, and the
// caller may have become one with the rights of another user.
func (a *Allocator) give(ctx context.Context, c Caller, r Request, snapshot Snapshot, move Move, choice placement.Choice, before string) (Lease, error) {
	l := Lease{Choice: choice, Nodes: a.nodes(choice)}
	for n := 1; ; n++ {
		l.Unit = name(c.UID, r, snapshot).String()
		var err error
		l.Notes, err = move.Start(ctx, Scope{Unit: l.Unit, Description: describe(r, choice), PID: c.PID, Allow: l.Nodes, Time: r.Time})
		if err == nil {
			err = errors.Join(a.Host.Check(c), a.verifyReplaced(before))
		} else {
			err = fmt.Errorf("cannot make %s: %w", l.Unit, err)
		}
		if err == nil {
			break
		}
		// It may come up all the same, and then nothing would end it.
		again := errors.Is(err, ErrNotMoved) && n < attempts
		err = errors.Join(err, move.Undo(context.WithoutCancel(ctx), l.Unit))
		if !again {
			return Lease{}, err
		}
		if gone := a.Host.Check(c); gone != nil {
			return Lease{}, gone
		}
	}
	return l, nil
}

// complete does for a scope that is up what its kind promises beyond the list of devices.
// It may take as long as a run, which waits for the lock of [Host.LockPartitions]: that must be free.
// It reports whether the lease is exclusive and other processes have its partitions open.
func (a *Allocator) complete(ctx context.Context, l *Lease, r Request) (opened bool) {
	if r.Kind == Exclusive {
		if err := a.Host.Guard(ctx, l.Unit); err != nil {
			l.Notes = append(l.Notes, NotExclusive+err.Error())
			_, opened = errors.AsType[*OpenError](err)
		}
	}
	if r.Kind == Shared {
		l.Notes = append(l.Notes, a.Host.LimitMemory(ctx, l.Unit, memoryLimitsOf(l.Choice.Partitions, r.Of)))
	}
	if r.Kind != Exclusive {
		if why := a.Host.Reachable(ctx, l.Unit, l.Nodes); why != "" {
			l.Notes = append(l.Notes, why)
		}
	}
	return opened
}

// nodes lists the device nodes that a lease of these partitions may open.
func (a *Allocator) nodes(choice placement.Choice) []string {
	var own, out []string
	for _, p := range choice.Partitions {
		own = append(own, p.Render)
		beside := p.Beside
		if beside == nil {
			beside = a.Common
		}
		for _, b := range beside {
			if !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return append(out, own...)
}

// describe is the scope's Description=, which every user can read, in the journal too. So
// it has the name of the program and not its arguments. It ends with no backslash: in the
// unit file that would take the next line in.
func describe(r Request, c placement.Choice) string {
	names := make([]string, len(c.Partitions))
	for i, p := range c.Partitions {
		names[i] = p.Name
	}
	program := "unknown"
	if words := strings.Fields(r.What); len(words) > 0 {
		program = filepath.Base(words[0])
	}
	return strings.TrimRight(fmt.Sprintf("Lease of %s: %s", strings.Join(names, " "), program), `\`)
}

// name is one that no unit has.
func name(uid uint32, r Request, snapshot Snapshot) Name {
	for {
		n := Name{Kind: r.Kind, UID: uid, ID: id(), Of: r.Of}
		if !slices.ContainsFunc(snapshot.Units, func(t UnitDevices) bool { return t.Unit == n.String() }) {
			return n
		}
	}
}

func id() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
