package lease

import (
	"slices"

	"dcm/internal/report"
)

// ExclusivePart is a partition that opens for its holder only.
type ExclusivePart struct {
	report.Part
	Holder      string              // the name of the reservation, or the unit of the lease
	Reservation *report.Reservation // nil for a lease
}

// Nodes are the device nodes that open for the holder only, the primary node too.
func (e ExclusivePart) Nodes() []string {
	if e.Card == "" {
		return []string{e.Render}
	}
	return []string{e.Render, e.Card}
}

// ExclusiveParts lists the partitions of the exclusive reservations, and of the exclusive
// leases among the units below dcm.slice, whose DeviceAllow= is given.
func ExclusiveParts(p report.Partitions, units map[string][]string) []ExclusivePart {
	var out []ExclusivePart
	for _, part := range p.Parts {
		for i, r := range p.Reservations {
			if r.Exclusive && slices.Contains(r.Partitions, part.Name) {
				out = append(out, ExclusivePart{part, r.Name, &p.Reservations[i]})
			}
		}
		for unit, allow := range units {
			if n, ok := ParseName(unit); ok && n.Kind == Exclusive && slices.Contains(allow, part.Render) {
				out = append(out, ExclusivePart{part, unit, nil})
			}
		}
	}
	return out
}
