package lease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// choose chooses partitions for a request.
func (p *policy) choose(snapshot Snapshot, caller Caller, r Request) (placement.Choice, error) {
	snapshot = snapshot.seenBy(caller, r)
	switch {
	case partition.IsMode(r.Make):
		return p.chooseMode(snapshot, caller, r)
	case r.Make != "":
		return p.chooseSlot(snapshot, caller, r)
	}
	if unknown := r.Unknown(snapshot.Parts); len(unknown) > 0 {
		return placement.Choice{}, &UnknownError{unknown}
	}
	allocations := Allocations(snapshot)
	kinds := KindsOf(snapshot.Parts)
	var err error
	if r.Kinds, err = r.Sought.Match(kinds); err != nil {
		return placement.Choice{}, snapshot.matchesLater(r, err)
	}
	r.Late = snapshot.Late
	no := taken(allocations) // the partitions that cannot be chosen
	if r.Kind == unitname.SharedLease {
		no = unshareable(allocations, r.Of)
		// Partitions that are shared already are filled first.
		if c, err := placement.Choose(all(allocations), onlyShared(allocations, no), r.Want); err == nil {
			return c, p.check(allocations, caller, len(c.Partitions))
		}
	}
	choice, err := snapshot.Cleaning.choose(all(allocations), no, r.Want)
	if err != nil {
		holders := holdersOf(allocations, r.Want)
		return choice, &InsufficientError{err, holders, snapshot.closedBy(holders)}
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
		if !w.Permits(h.Part) {
			continue
		}
		holders := h.Whose()
		if len(holders) == 0 && h.Switched.IsMode() {
			holders = []string{"leases with --make " + h.Switched.Profile}
		}
		for _, holder := range holders {
			if !slices.Contains(out, holder) {
				out = append(out, holder)
			}
		}
	}
	return out
}

// impossible returns an [ImpossibleError] if a request could not be met even after the end of all
// units. If the caller waits inside a lease with other processes, that lease counts as not ending.
func (p *policy) impossible(snapshot Snapshot, c Caller, r Request, at location) error {
	own := ""
	if r.Wait {
		own = at.around()
	}
	alone := snapshot.after(func(unit string) bool { return unit != own })
	alone.Open, alone.Awaited, alone.Held, alone.Cleaning, alone.Hours = nil, nil, HeldMemory{}, Cleaning{}, alone.excluding(c, r)
	alone = alone.atRest()
	switch {
	case partition.IsMode(r.Make):
		return p.modeImpossible(alone, c, r)
	case r.Make != "":
		return p.slotImpossible(alone, c, r)
	}
	_, err := p.choose(alone, c, r)
	if limit, ok := errors.AsType[*LimitError](err); ok {
		return &ImpossibleError{limit}
	}
	if none, ok := errors.AsType[*partition.NoMatchError](err); ok {
		return &ImpossibleError{none}
	}
	if unknown, ok := errors.AsType[*UnknownError](err); ok {
		return &ImpossibleError{unknown}
	}
	short, ok := errors.AsType[*placement.ShortError](err)
	if !ok {
		return nil // the caller calls choose again, which returns any other error
	}
	return &ImpossibleError{errors.New(explain(alone.seenBy(c, r), short, own))}
}

// explain says why a request can never be met.
func explain(snapshot Snapshot, short *placement.ShortError, own string) string {
	n, what := short.Want.Partitions, "partition"
	if short.Want.GPUs > 0 {
		n, what = short.Want.GPUs, "whole GPU"
	}
	if n != 1 {
		what += "s"
	}
	text := fmt.Sprintf("%d %s requested", n, what)
	if n > short.Of {
		text += fmt.Sprintf(", but the node has %d", short.Of)
		if short.Want.Kinds != nil {
			text += " of that kind"
		}
		return text
	}
	text += fmt.Sprintf(", but at most %d of %d can be leased", short.Free, short.Of)
	reserved := make(map[string]int)
	for _, p := range snapshot.Parts {
		if name := snapshot.Reserved[p.Name]; name != "" {
			reserved[name]++
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		list = append(list, fmt.Sprintf("%s %d", name, reserved[name]))
	}
	if len(list) > 0 {
		text += "; reserved: " + strings.Join(list, ", ")
	}
	for _, why := range slices.Compact(slices.Sorted(maps.Values(snapshot.closed))) {
		text += "; a GPU has " + why
	}
	if own != "" {
		text += "; the caller runs in " + own + " and cannot wait for its end"
	}
	return text
}
