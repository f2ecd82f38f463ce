package selftest

import (
	"fmt"
	"slices"

	"dcm/internal/gpu/partition"
)

// MIGProfiles compares the MIG profiles that the driver lists with dcm's table of boards. Without
// them no instance can be created. Some drivers list none while MIG is off, and a firmware may
// have other profiles than the table. No check if no GPU has MIG.
func MIGProfiles(at string, gpus []GPU) []Check {
	var bad, hidden, other, seen []string
	for _, g := range gpus {
		if g.MIG == nil {
			continue
		}
		table, known := boardOf(g)
		switch {
		case len(g.Profiles) == 0 && !g.MIG.Off:
			bad = append(bad, string(g.Address)+": the driver lists no profile that dcm can read")
		case len(g.Profiles) == 0:
			hidden = append(hidden, string(g.Address)+": the driver lists no profile that dcm can read while MIG is off")
		case known && !slices.EqualFunc(byID(g.Profiles), byID(table.Profiles), equalProfiles):
			other = append(other, fmt.Sprintf("%s: %s (the table of %s has %s)", g.Address, names(g.Profiles), table.Name, names(table.Profiles)))
		default:
			seen = appendDistinct(seen, names(g.Profiles))
		}
	}
	const what = "MIG profiles"
	var out []Check
	for _, c := range []struct {
		verdict Verdict
		texts   []string
	}{{Wrong, bad}, {NotSeen, hidden}, {Noted, other}, {Right, seen}} {
		for _, text := range c.texts {
			out = append(out, newCheck(at, what, c.verdict, text))
		}
	}
	return about(Library, out...)
}

func boardOf(g GPU) (partition.Board, bool) {
	all := partition.Boards()
	i := slices.IndexFunc(all, func(b partition.Board) bool { return b.Device == g.Device })
	if i < 0 {
		return partition.Board{}, false
	}
	return all[i], true
}

func byID(list []partition.InstanceProfile) []partition.InstanceProfile {
	return slices.SortedFunc(slices.Values(list), func(a, b partition.InstanceProfile) int { return a.ID - b.ID })
}

func equalProfiles(a, b partition.InstanceProfile) bool {
	return a.Name == b.Name && a.ID == b.ID && a.InstanceCount == b.InstanceCount && a.Size == b.Size && slices.Equal(a.Starts, b.Starts)
}

// names returns the names of profiles, with the number of instances of each.
func names(list []partition.InstanceProfile) string {
	out := ""
	for i, p := range list {
		if i > 0 {
			out += ", "
		}
		out += fmt.Sprintf("%d × %s", p.InstanceCount, p.Name)
	}
	return out
}
