package lease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
)

// impossible returns an [ImpossibleError] if a request could not be met even after the end of all
// units. If the caller waits inside a lease with other processes, that lease counts as not ending.
func (p *policy) impossible(snapshot Snapshot, c Caller, r Request, at location) error {
	own := ""
	if r.Wait {
		own = at.around()
	}
	alone := snapshot.after(func(unit string) bool { return unit != own })
	alone.Open, alone.Awaited = nil, nil
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
	short, ok := errors.AsType[*placement.ShortError](err)
	if !ok {
		return nil // the caller calls choose again, which returns any other error
	}
	return &ImpossibleError{errors.New(explain(alone, short, own))}
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
	if own != "" {
		text += "; the caller runs in " + own + " and cannot wait for its end"
	}
	return text
}
