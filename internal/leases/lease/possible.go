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

// ImpossibleError is the refusal of a request that cannot be met even when all other leases
// have ended: reservations or limits are in its way, or no partition is of its kind.
type ImpossibleError struct{ Err error }

func (e *ImpossibleError) Error() string { return e.Err.Error() }
func (e *ImpossibleError) Unwrap() error { return e.Err }

// impossible returns an error for a request that could not be met if all units ended. A
// process that waits in a lease does not see that lease end.
func (a *Allocator) impossible(snapshot Snapshot, c Caller, r Request, at location) error {
	own := ""
	if r.Wait {
		own = at.around()
	}
	alone := snapshot.after(func(unit string) bool { return unit != own })
	alone.Open = nil
	_, err := a.choose(alone, c, r)
	if limit, ok := errors.AsType[*LimitError](err); ok {
		return &ImpossibleError{limit}
	}
	if none, ok := errors.AsType[*partition.NoMatchError](err); ok {
		return &ImpossibleError{none}
	}
	short, ok := errors.AsType[*placement.ShortError](err)
	if !ok {
		return nil // what else is wrong is for who chooses
	}
	return &ImpossibleError{errors.New(reasons(alone, short, own))}
}

// reasons says what keeps a request from ever being met.
func reasons(snapshot Snapshot, short *placement.ShortError, own string) string {
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
	kept := make(map[string]int)
	for _, p := range snapshot.Parts {
		if name := snapshot.Reserved[p.Name]; name != "" {
			kept[name]++
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		list = append(list, fmt.Sprintf("%s %d", name, kept[name]))
	}
	if len(list) > 0 {
		text += "; reserved: " + strings.Join(list, ", ")
	}
	if own != "" {
		text += "; the caller runs in " + own + " and cannot wait for its end"
	}
	return text
}
