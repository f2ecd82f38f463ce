package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
)

// exchange is what the allocator reads of the lease that a caller is in.
type exchange interface {
	// Within returns the lease that a process is in, "" for none, and whether it is the
	// only process there.
	Within(pid int) (unit string, alone bool)
	// Empty reports whether a lease has no process.
	Empty(unit string) bool
	// Terms returns how long leases last. Those that have ended are left out.
	Terms(ctx context.Context, leases []string) (map[string]Term, error)
}

// location is where a caller is.
type location struct {
	unit string // the lease, "" for none
	own  bool   // it is the caller's, and the caller is its only process
}

func (a *Allocator) locate(c Caller) location {
	unit, alone := a.Host.Within(c.PID)
	n, ok := ParseName(unit)
	if !ok {
		return location{}
	}
	return location{unit, alone && n.UID == c.UID}
}

// exchanged is the lease that ends when the caller is moved to another one, "" for none.
func (l location) exchanged() string {
	if !l.own {
		return ""
	}
	return l.unit
}

// around is the lease that the caller stays in while it waits, "" for none.
func (l location) around() string {
	if l.own {
		return ""
	}
	return l.unit
}

// excludeOwn leaves the lease out that is exchanged. Otherwise a program would need room for
// two leases where it requests one.
func (l location) excludeOwn(snapshot Snapshot) Snapshot {
	if !l.own {
		return snapshot
	}
	snapshot.Units = slices.DeleteFunc(slices.Clone(snapshot.Units), func(t UnitDevices) bool { return t.Unit == l.unit })
	return snapshot
}

// verifyReplaced refuses the exchange if the caller has left other processes in its old lease: the
// partitions would have two holders.
func (a *Allocator) verifyReplaced(before string) error {
	if before == "" || a.Host.Empty(before) {
		return nil
	}
	return fmt.Errorf("%s, which was to be exchanged, has other processes now", before)
}

// fresh is how old a lease with a limit may be to count as one that has its time before it.
const fresh = time.Minute

// has returns the lease that a caller is alone in, if that is what it requests. So a caller
// whose answer was lost, because the daemon ended after the move, has its lease when it
// asks again, and neither waits nor is in the way of a drain.
func (a *Allocator) keepLease(ctx context.Context, c Caller, r Request) (l Lease, ok bool) {
	at := a.locate(c)
	n, _ := ParseName(at.unit)
	if !at.own || n.Kind != r.Kind || n.Of != r.Of {
		return Lease{}, false
	}
	terms, err := a.Host.Terms(ctx, []string{at.unit})
	term, known := terms[at.unit]
	if err != nil || !known || term.Limit != r.Time || r.Time > 0 && time.Since(term.Began) > fresh {
		return Lease{}, false
	}
	snapshot, err := a.Host.Snapshot(ctx)
	if err != nil {
		return Lease{}, false
	}
	allocations, others := Allocations(snapshot), make(map[string]bool)
	var kept []runstate.Part
	for _, h := range allocations {
		if others[h.Name] = !slices.Contains(h.Units, at.unit); !others[h.Name] {
			kept = append(kept, h.Part)
		}
	}
	w := r.Want
	if w.Kinds, err = r.Sought.Match(KindsOf(snapshot.Parts)); err != nil {
		return Lease{}, false
	}
	mine, err := placement.Choose(all(allocations), others, w)
	best, lack := a.choose(at.excludeOwn(snapshot), c, r)
	if err != nil || lack != nil || len(mine.Partitions) != len(kept) || !mine.AsGood(best, w.Place) || a.Host.Check(c) != nil {
		return Lease{}, false
	}
	l = Lease{Unit: at.unit, Choice: mine, Nodes: a.nodes(mine)}
	a.complete(ctx, &l, r)
	return l, true
}
