package daemon

import (
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// abandoned are GPUs that failed permanently while others wait for their holders. When a holder ends, the
// pass changes the GPUs that waited, and not these. The zero value is none.
type abandoned struct {
	gpus    []partition.Address
	failure *runstate.Error
}

// abandonedIn returns the GPUs that failed permanently in a run that left others to their holders.
func abandonedIn(run *runstate.Run) abandoned {
	left := run.Left()
	if run.Error == nil || run.Error.Transient || len(left) == 0 {
		return abandoned{}
	}
	var out abandoned
	var texts []string
	for _, g := range run.GPUs {
		if g.Skipped || g.Now.Same(g.Want) || slices.Contains(left, g.Address) {
			continue
		}
		out.gpus = append(out.gpus, g.Address)
		for _, s := range run.Steps {
			if s.GPU == g.Address && s.Error != "" && !slices.Contains(texts, s.Error) {
				texts = append(texts, s.Error)
			}
		}
	}
	failure := *run.Error
	if len(texts) > 0 { // without what is said of the GPUs that wait
		failure.Text = strings.Join(texts, "; ")
	}
	out.failure = &failure
	return out
}

// waiting returns the part of an observation that the pass may change, without the abandoned GPUs. It is
// nil if there are none, or if the GPUs cannot change without them.
func (a abandoned) waiting(now Observation) *Observation {
	if now.Scope == nil || now.Scope.Part == nil {
		return nil
	}
	var rest, others []partition.Address
	for _, gpu := range now.GPUs {
		if slices.Contains(a.gpus, gpu) {
			others = append(others, gpu)
		} else {
			rest = append(rest, gpu)
		}
	}
	if len(others) == 0 {
		return nil
	}
	now.GPUs = rest
	if len(rest) > 0 {
		now.Scope, now.Blocking = now.Scope.Part(rest, now.Blocking)
		now.Scope.others = others
	}
	return &now
}
