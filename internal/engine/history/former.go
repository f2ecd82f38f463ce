package history

import (
	"slices"

	"dcm/internal/engine/runstate"
)

// Former returns the last successful run of each profile but the selected one, the newest first. known reports
// whether a profile can still be selected.
func Former(all []Entry, selected string, known func(profile string) bool) []Entry {
	seen := []string{"", selected}
	var out []Entry
	for _, e := range slices.Backward(all) {
		succeeded := e.Result == runstate.Applied || e.Result == runstate.Unchanged
		if succeeded && !slices.Contains(seen, e.Profile) && known(e.Profile) {
			seen, out = append(seen, e.Profile), append(out, e)
		}
	}
	return out
}
