package selftest

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// MIGProfiles compares the MIG profiles that the driver lists with dcm's table of boards. Without
// them no instance can be created. Some drivers list none while MIG is off, and a firmware may
// have other profiles than the table. No check if no GPU has MIG.
func MIGProfiles(at string, gpus []GPU) []Check {
	var out []Check
	for _, g := range gpus {
		if g.MIG == nil {
			continue
		}
		table, known := partition.BoardOf(g.GPU)
		c := newCheck(at, "MIG profiles", Right, names(g.Profiles))
		switch {
		case len(g.Profiles) == 0 && !g.MIG.Off:
			c.Verdict, c.Text = Wrong, string(g.Address)+": the driver lists no profile that dcm can read"
		case len(g.Profiles) == 0:
			c.Verdict, c.Text = NotSeen, string(g.Address)+": the driver lists no profile that dcm can read while MIG is off"
		case known && !slices.EqualFunc(byID(g.Profiles), byID(table.Profiles), equalProfiles):
			c.Verdict, c.Text = Noted, fmt.Sprintf("%s: %s (the table of %s has %s)", g.Address, names(g.Profiles), table.Name, names(table.Profiles))
		}
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return about(Library, out...)
}

func byID(list []partition.InstanceProfile) []partition.InstanceProfile {
	return slices.SortedFunc(slices.Values(list), func(a, b partition.InstanceProfile) int { return a.ID - b.ID })
}

func equalProfiles(a, b partition.InstanceProfile) bool {
	return a.Name == b.Name && a.ID == b.ID && a.InstanceCount == b.InstanceCount && a.Size == b.Size && slices.Equal(a.Starts, b.Starts)
}

// names returns the names of profiles, with the number of instances of each.
func names(list []partition.InstanceProfile) string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%d × %s", p.InstanceCount, p.Name))
	}
	return strings.Join(out, ", ")
}
