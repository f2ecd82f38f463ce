package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// InsufficientError is a refusal because other holders have the partitions, or wait for them.
type InsufficientError struct {
	Err     error
	Holders []string
}

func (e *InsufficientError) Error() string {
	if len(e.Holders) == 0 {
		return e.Err.Error()
	}
	list := e.Holders[:min(len(e.Holders), 8)]
	more := ""
	if n := len(e.Holders) - len(list); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s; the others have %s%s", e.Err, strings.Join(list, ", "), more)
}

func (e *InsufficientError) Unwrap() error { return e.Err }

func (a *Allocator) choose(snapshot Snapshot, caller Caller, r Request) (placement.Choice, error) {
	allocations := Allocations(snapshot)
	there := KindsOf(snapshot.Parts)
	if !r.Sought.Any() && slices.Contains(there, "") { // an older dcm has listed them
		return placement.Choice{}, errors.New("the kinds of the partitions are not listed yet: the next run does it, or systemctl restart " + unitname.Reserve)
	}
	var err error
	if r.Kinds, err = r.Sought.Match(there); err != nil {
		return placement.Choice{}, err
	}
	no := taken(allocations)
	if r.Kind == Shared {
		no = unshareable(allocations, r.Of)
		// What is shared already is filled up first.
		if c, err := placement.Choose(all(allocations), onlyShared(allocations, no), r.Want); err == nil {
			return c, a.allowed(allocations, caller, len(c.Partitions))
		}
	}
	choice, err := placement.Choose(all(allocations), no, r.Want)
	if err != nil {
		return choice, &InsufficientError{err, holdersOf(allocations, r.Want)}
	}
	return choice, a.allowed(allocations, caller, len(choice.Partitions))
}

// KindsOf are what partitions are of, each.
func KindsOf(parts []runstate.Part) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = p.Kind
	}
	return out
}

// shares settles how many are to share a partition.
func (a *Allocator) shares(r *Request) error {
	if r.Kind != Shared {
		r.Of = 0
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	most := min(max(a.limits.Shares, 1), MostShares)
	if r.Of == 0 {
		r.Of = most
	}
	switch {
	case most < 2:
		return fmt.Errorf("nobody may share a partition: shares = %d in [leases] of the configuration", most)
	case r.Of < 2 || r.Of > most:
		return fmt.Errorf("%d cannot share a partition: shares = %d in [leases] lets 2 to %[2]d", r.Of, most)
	}
	return nil
}

// count is how many partitions these users have by leases.
func count(allocations []Allocation, counts func(uid uint32) bool) int {
	n := 0
	for _, h := range allocations {
		for _, unit := range h.Units {
			if name, ok := ParseName(unit); ok && counts(name.UID) {
				n++
			}
		}
	}
	return n
}

// holdersOf names the holders of the partitions that the request could have used.
func holdersOf(allocations []Allocation, w placement.Want) []string {
	var out []string
	for _, h := range allocations {
		if w.Among != nil && !slices.Contains(w.Among, h.GPU) || w.Kinds != nil && !slices.Contains(w.Kinds, h.Kind) {
			continue
		}
		for _, who := range h.Whose() {
			if !slices.Contains(out, who) {
				out = append(out, who)
			}
		}
	}
	return out
}
