package lease

import (
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// ExclusivePart is a partition that only its holder can open.
type ExclusivePart struct {
	runstate.Part
	Holder      string                // the name of the reservation, or the unit of the lease
	Reservation *runstate.Reservation // nil for a lease
}

// Nodes returns the device nodes that only the holder can open, including the primary node.
func (e ExclusivePart) Nodes() []string {
	if e.Card == "" {
		return []string{e.Render}
	}
	return []string{e.Render, e.Card}
}

// ExclusiveParts returns the partitions of exclusive reservations and of the exclusive leases in
// units, which has the DeviceAllow= of the units below dcm.slice.
func ExclusiveParts(p runstate.Partitions, units map[string][]string) []ExclusivePart {
	var out []ExclusivePart
	for _, part := range p.Parts {
		for i, r := range p.Reservations {
			if r.Exclusive && slices.Contains(r.Partitions, part.Name) {
				out = append(out, ExclusivePart{part, r.Name, &p.Reservations[i]})
			}
		}
		for unit, allow := range units {
			if n, ok := unitname.ParseLease(unit); ok && n.Kind == unitname.ExclusiveLease && slices.Contains(allow, part.Render) {
				out = append(out, ExclusivePart{part, unit, nil})
			}
		}
	}
	return out
}
