package runstate

import (
	"cmp"
	"encoding/json"
	"slices"
)

// UnmarshalJSON also reads the pending starts of version 0.1.0 and earlier: a list of units and a map of their
// invocations. A package upgrade keeps the file.
func (s *State) UnmarshalJSON(text []byte) error {
	type plain State
	var earlier struct {
		Units []string          `json:"owed"`
		Runs  map[string]string `json:"owed-runs"`
	}
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
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
