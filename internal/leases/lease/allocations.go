package lease

import (
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
)

// UnitDevices is a unit below [Slice], with its device list as PID 1 has it.
type UnitDevices struct {
	Unit    string
	Active  bool     // or on the way to or from it: it may have processes
	Allowed []string // the devices that DeviceAllow= names, links resolved
}

// Allocation is a partition with its holders.
type Allocation struct {
	runstate.Part
	Units []string // whose DeviceAllow= names it: a reservation's while it is active, or leases
	For   string   // the reservation that it is kept for, whether its unit is active or not
	Users []string // units, or processes as "python[4711]", that have it open and may not
}

// Free reports whether the partition can be allocated.
func (h Allocation) Free() bool { return len(h.Units) == 0 && h.For == "" && len(h.Users) == 0 }

// Whose names the holders, for an error message.
func (h Allocation) Whose() []string {
	out := slices.Concat(h.Units, h.Users)
	if h.For != "" && len(h.Units) == 0 {
		out = append(out, "reservation "+h.For)
	}
	return out
}

// Snapshot are what is known of a node's partitions at one moment.
type Snapshot struct {
	Parts    []runstate.Part
	Units    []UnitDevices
	Reserved map[string]string   // partition → reservation
	Open     map[string][]string // partition → who has it open, whether it may or not
}

// Allocations returns each partition with its holders.
func Allocations(snapshot Snapshot) []Allocation {
	out := make([]Allocation, len(snapshot.Parts))
	for i, p := range snapshot.Parts {
		h := Allocation{Part: p, For: snapshot.Reserved[p.Name]}
		for _, t := range snapshot.Units {
			if t.Active && slices.Contains(t.Allowed, p.Render) {
				h.Units = append(h.Units, t.Unit)
			}
		}
		for _, who := range snapshot.Open[p.Name] {
			if !slices.Contains(h.Units, who) {
				h.Users = append(h.Users, who)
			}
		}
		out[i] = h
	}
	return out
}

// taken is what cannot be given away.
func taken(allocations []Allocation) map[string]bool {
	out := make(map[string]bool)
	for _, h := range allocations {
		if !h.Free() {
			out[h.Name] = true
		}
	}
	return out
}

// unshareable returns the partitions that cannot take another of that many sharers: held unshared,
// shared with another count, or at the limit.
func unshareable(allocations []Allocation, of int) map[string]bool {
	out := make(map[string]bool)
	for _, h := range allocations {
		others := slices.ContainsFunc(h.Units, func(unit string) bool {
			n, ok := ParseName(unit)
			return !ok || n.Of != of
		})
		if others || h.For != "" || len(h.Users) > 0 || len(h.Units) >= of {
			out[h.Name] = true
		}
	}
	return out
}

// onlyShared adds to the unavailable partitions those that no lease shares yet.
func onlyShared(allocations []Allocation, no map[string]bool) map[string]bool {
	out := maps.Clone(no)
	for _, h := range allocations {
		if len(h.Units) == 0 {
			out[h.Name] = true
		}
	}
	return out
}

func all(allocations []Allocation) []runstate.Part {
	out := make([]runstate.Part, len(allocations))
	for i, h := range allocations {
		out[i] = h.Part
	}
	return out
}
