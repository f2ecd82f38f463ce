package runstate

import (
	"maps"
	"time"
)

// Totals counts the runs of a boot. Each report copies the totals of the report that it replaces,
// so that an occasional reader misses no run.
type Totals struct {
	Runs      map[Result]int `json:"runs,omitempty"`     // the runs that have ended, by result
	Succeeded time.Time      `json:"succeeded,omitzero"` // the end of the last successful run
}

// Killed is the result, in the [Totals], of a run that ended before it wrote one.
const Killed Result = "killed"

// Since returns the totals at the beginning of a new run of this boot. last may be nil.
func Since(last *Run, boot string) Totals {
	if last == nil || last.Boot != boot {
		return Totals{}
	}
	if last.Result == Running {
		return last.Totals.Plus(Killed, time.Time{})
	}
	return last.Totals
}

// Plus returns the totals with one more run.
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

// Results lists the results of runs that have ended.
func Results() []Result {
	return []Result{Unchanged, Applied, NoProfile, Round, Refused, RolledBack, Partial, Failed, Interrupted, Killed}
}
