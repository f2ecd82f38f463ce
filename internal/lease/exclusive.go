package lease

import (
	"slices"

	"dcm/internal/report"
)

// ExclusiveNodes lists the device nodes that only their holders shall open, primary
// nodes too: of the exclusive reservations, and of the exclusive leases among the units
// below [Slice], whose DeviceAllow= is given.
func ExclusiveNodes(p report.Partitions, units map[string][]string) []string {
	mine := make(map[string]bool) // partitions
	for _, r := range p.Reservations {
		for _, name := range r.Partitions {
			mine[name] = mine[name] || r.Exclusive
		}
	}
	for unit, allow := range units {
		if n, ok := ParseName(unit); !ok || n.Kind != Exclusive {
			continue
		}
		for _, part := range p.Parts {
			mine[part.Name] = mine[part.Name] || slices.Contains(allow, part.Render)
		}
	}
	var out []string
	for _, part := range p.Parts {
		if mine[part.Name] {
			out = append(out, part.Render)
			if part.Card != "" {
				out = append(out, part.Card)
			}
		}
	}
	return out
}
