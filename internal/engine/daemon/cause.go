package daemon

import (
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// gpuHistory is the set of GPUs that the daemon has seen.
type gpuHistory struct {
	present []partition.Address // at the last observation; nil if there was none
	known   []partition.Address // at any observation
}

// with returns the history after an observation.
func (h gpuHistory) with(now []partition.Address) gpuHistory {
	h.present, h.known = now, slices.Clone(h.known)
	for _, a := range now {
		if !slices.Contains(h.known, a) {
			h.known = append(h.known, a)
		}
	}
	return h
}

// cause returns why the GPUs differ from those of the last observation: GPUs were added or removed,
// otherwise another program has changed them.
func (h gpuHistory) cause(now []partition.Address) string {
	var added, back, removed []partition.Address
	for _, a := range now {
		switch {
		case h.present == nil || slices.Contains(h.present, a):
		case slices.Contains(h.known, a):
			back = append(back, a)
		default:
			added = append(added, a)
		}
	}
	for _, a := range h.present {
		if !slices.Contains(now, a) {
			removed = append(removed, a)
		}
	}
	var out []string
	for _, c := range []struct {
		gpus      []partition.Address
		one, many string
	}{{added, "a GPU was added: ", "GPUs were added: "}, {back, "a GPU came back: ", "GPUs came back: "}, {removed, "a GPU was removed: ", "GPUs were removed: "}} {
		switch len(c.gpus) {
		case 0:
		case 1:
			out = append(out, c.one+string(c.gpus[0]))
		default:
			out = append(out, c.many+partition.List(c.gpus))
		}
	}
	if len(out) == 0 {
		return "another program has changed the GPUs"
	}
	return strings.Join(out, "; ")
}
