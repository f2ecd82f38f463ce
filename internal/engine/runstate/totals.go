package runstate

import (
	"maps"
	"time"
)

// Totals is the history of a boot's runs. Each report carries on that of the
// report that it replaces, so that no run is missed by whoever reads only now and
// then, and nothing needs a file of its own.
type Totals struct {
	Runs      map[Result]int `json:"runs,omitempty"`     // the runs that have ended, by how
	Succeeded time.Time      `json:"succeeded,omitzero"` // the end of the last one after which the GPUs were as selected
}

// Killed is, among the [Totals], a run that ended before it could say how.
const Killed Result = "killed"

// Since returns the totals that a new run of this boot begins with. last may be
// nil.
func Since(last *Run, boot string) Totals {
	if last == nil || last.Boot != boot {
		return Totals{}
	}
	if last.Result == Running {
		return last.Totals.Plus(Killed, time.Time{})
	}
	return last.Totals
}

// Plus returns the totals with one more run, which ended so.
func (t Totals) Plus(r Result, ended time.Time) Totals {
	runs := maps.Clone(t.Runs)
	if runs == nil {
		runs = make(map[Result]int)
	}
	runs[r]++
	t.Runs = runs
	if r.OK() {
		t.Succeeded = ended
	}
	return t
}

// Results lists how a run can end.
func Results() []Result {
	return []Result{Unchanged, Applied, NoProfile, Refused, RolledBack, Failed, Interrupted, Killed}
}
