package lease

import (
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
)

// UnitDevices is a unit below [Slice], as PID 1 tells of it.
type UnitDevices struct {
	Unit    string
	Active  bool     // or on the way to or from it: it may have processes
	Allowed []string // the devices that DeviceAllow= names, links resolved
}

// Allocation is a partition with those who have it.
type Allocation struct {
	runstate.Part
	Units []string // whose DeviceAllow= names it: a reservation's while it is active, or leases
	For   string   // the reservation that it is kept for, whether its unit is active or not
	Users []string // units, or processes as "python[4711]", that have it open and may not
}

// Free tells whether it can be given to somebody.
func (h Allocation) Free() bool { return len(h.Units) == 0 && h.For == "" && len(h.Users) == 0 }

// Whose names who has it, for a refusal.
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
	Tenants  []UnitDevices
	Reserved map[string]string   // partition → reservation
	Open     map[string][]string // partition → who has it open, whether it may or not
}

// Allocations says of every partition who has it.
func Allocations(f Snapshot) []Allocation {
	out := make([]Allocation, len(f.Parts))
	for i, p := range f.Parts {
		h := Allocation{Part: p, For: f.Reserved[p.Name]}
		for _, t := range f.Tenants {
			if t.Active && slices.Contains(t.Allowed, p.Render) {
				h.Units = append(h.Units, t.Unit)
			}
		}
		for _, who := range f.Open[p.Name] {
			if !slices.Contains(h.Units, who) {
				h.Users = append(h.Users, who)
			}
		}
		out[i] = h
	}
	return out
}

// taken is what cannot be given away.
func taken(book []Allocation) map[string]bool {
	out := make(map[string]bool)
	for _, h := range book {
		if !h.Free() {
			out[h.Name] = true
		}
	}
	return out
}

// full is what cannot be given to one more of so many who share: what anybody has for
// himself or shares with another number, and what so many have.
func full(book []Allocation, of int) map[string]bool {
	out := make(map[string]bool)
	for _, h := range book {
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

// begun leaves of what could be shared that which somebody shares already.
func begun(book []Allocation, no map[string]bool) map[string]bool {
	out := maps.Clone(no)
	for _, h := range book {
		if len(h.Units) == 0 {
			out[h.Name] = true
		}
	}
	return out
}

func all(book []Allocation) []runstate.Part {
	out := make([]runstate.Part, len(book))
	for i, h := range book {
		out[i] = h.Part
	}
	return out
}
