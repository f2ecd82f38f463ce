package runstate

import (
	"cmp"
	"encoding/json"
	"slices"
)

// UnmarshalJSON also reads what version 0.1.0 and earlier have written: the pending starts as a list of units and a
// map of their invocations, and how a change in rounds is made with its reason. A package upgrade keeps the file.
func (s *State) UnmarshalJSON(text []byte) error {
	type plain State
	var earlier struct {
		Units []string          `json:"owed"`
		Runs  map[string]string `json:"owed-runs"`
	}
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
	}
	if s.Selection == nil && s.Asked != nil && s.Progress != nil {
		s.Selection = &Selection{Profile: s.Profile, Rolling: s.Asked.Rolling, IgnoreBudget: s.Asked.IgnoreBudget}
	}
	if s.Pending != nil || json.Unmarshal(text, &earlier) != nil {
		return nil
	}
	for _, unit := range earlier.Units {
		s.Pending = append(s.Pending, PendingStart{Unit: unit, Invocation: earlier.Runs[unit], Reason: StoppedByRun})
	}
	slices.SortFunc(s.Pending, func(a, b PendingStart) int { return cmp.Compare(a.Unit, b.Unit) })
	return nil
}
