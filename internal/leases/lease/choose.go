package lease

import (
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// choose chooses partitions for a request.
func (p *policy) choose(snapshot Snapshot, caller Caller, r Request) (placement.Choice, error) {
	switch {
	case partition.IsMode(r.Make):
		return p.chooseMode(snapshot, caller, r)
	case r.Make != "":
		return p.chooseSlot(snapshot, caller, r)
	}
	allocations := Allocations(snapshot)
	kinds := KindsOf(snapshot.Parts)
	var err error
	if r.Kinds, err = r.Sought.Match(kinds); err != nil {
		return placement.Choice{}, snapshot.matchesLater(r, err)
	}
	no := taken(allocations) // the partitions that cannot be chosen
	if r.Kind == unitname.SharedLease {
		no = unshareable(allocations, r.Of)
		// Partitions that are shared already are filled first.
		if c, err := placement.Choose(all(allocations), onlyShared(allocations, no), r.Want); err == nil {
			return c, p.check(allocations, caller, len(c.Partitions))
		}
	}
	choice, err := placement.Choose(all(allocations), no, r.Want)
	if err != nil {
		return choice, &InsufficientError{err, holdersOf(allocations, r.Want)}
	}
	return choice, p.check(allocations, caller, len(choice.Partitions))
}

// KindsOf returns the kind of each partition.
func KindsOf(parts []runstate.Part) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = p.Kind
	}
	return out
}

// holdersOf names the holders of the partitions that the request could have used.
func holdersOf(allocations []Allocation, w placement.Want) []string {
	var out []string
	for _, h := range allocations {
		if w.Among != nil && !slices.Contains(w.Among, h.GPU) || w.Kinds != nil && !slices.Contains(w.Kinds, h.Kind) {
			continue
		}
		for _, holder := range h.Whose() {
			if !slices.Contains(out, holder) {
				out = append(out, holder)
			}
		}
	}
	return out
}
