package lease

import (
	"context"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
)

// NotExclusive begins the note of a lease that was to be exclusive and is not.
const NotExclusive = "not exclusive: "

// OpenError names the processes that have the partitions of an exclusive lease open. They
// opened them after the partitions were chosen and before the guard's table had them.
type OpenError struct{ Processes []string }

func (e *OpenError) Error() string { return strings.Join(e.Processes, ", ") }

// exclusiveAttempts is how many leases a caller is given in turn until no other process has
// the partitions open. A user who waits for the scope of an exclusive lease to appear can
// open its partitions each time.
const exclusiveAttempts = 4

// replace exchanges an exclusive lease whose partitions other processes have open for one of
// other partitions. If there are none now, the caller keeps the lease, whose notes name the
// processes.
func (a *Allocator) replace(ctx context.Context, c Caller, r Request, l Lease) (Lease, error) {
	r.Wait = false
	for range exclusiveAttempts - 1 {
		next, opened, err := a.request(ctx, c, r)
		if err != nil {
			if unit, _ := a.Host.Within(c.PID); unit == l.Unit {
				return l, nil
			}
			return Lease{}, err
		}
		next.Replaced = append(l.Replaced, l.Unit)
		if l = next; !opened {
			break
		}
	}
	return l, nil
}

// ExclusivePart is a partition that opens for its holder only.
type ExclusivePart struct {
	runstate.Part
	Holder      string                // the name of the reservation, or the unit of the lease
	Reservation *runstate.Reservation // nil for a lease
}

// Nodes are the device nodes that open for the holder only, the primary node too.
func (e ExclusivePart) Nodes() []string {
	if e.Card == "" {
		return []string{e.Render}
	}
	return []string{e.Render, e.Card}
}

// ExclusiveParts lists the partitions of the exclusive reservations, and of the exclusive
// leases among the units below dcm.slice, whose DeviceAllow= is given.
func ExclusiveParts(p runstate.Partitions, units map[string][]string) []ExclusivePart {
	var out []ExclusivePart
	for _, part := range p.Parts {
		for i, r := range p.Reservations {
			if r.Exclusive && slices.Contains(r.Partitions, part.Name) {
				out = append(out, ExclusivePart{part, r.Name, &p.Reservations[i]})
			}
		}
		for unit, allow := range units {
			if n, ok := ParseName(unit); ok && n.Kind == Exclusive && slices.Contains(allow, part.Render) {
				out = append(out, ExclusivePart{part, unit, nil})
			}
		}
	}
	return out
}
