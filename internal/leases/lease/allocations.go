package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/made"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// UnitDevices is a unit below dcm.slice with its device list in PID 1.
type UnitDevices struct {
	Unit    string
	Active  bool     // it is active, starting or stopping, so it may have processes
	Allowed []string // paths of the device nodes in DeviceAllow=, with links resolved
}

// Allocation is a partition with its holders.
type Allocation struct {
	runstate.Part
	Units []string // active units whose DeviceAllow= names it: reserved services, and leases
	For   string   // the reservation that it was chosen for, even if the unit is not active
	Users []string // units, or processes such as "python[4711]", that have it open and are not in Units

	Awaited string // the process that waits to change its GPU, the memory that no process holds, or its cleaning; "" for none
	Made    string // the lease that has made it, even if the lease has ended, or the unit that has set the mode; "" for none

	Switched made.Name // the mode of the GPU that leases have set; the zero value for none
}

// Free reports whether the partition can be allocated.
func (h Allocation) Free() bool {
	return len(h.Units) == 0 && h.For == "" && len(h.Users) == 0 && h.Awaited == "" && h.Made == ""
}

// Whose returns the names of the holders, for an error message. A partition in the mode of leases that none of
// them has is free for others: it has no holder.
func (h Allocation) Whose() []string {
	out := slices.Concat(h.Units, h.Users)
	if h.For != "" && len(h.Units) == 0 {
		out = append(out, "reservation "+h.For)
	}
	if h.Awaited != "" {
		out = append(out, h.Awaited)
	}
	if h.Made != "" && !h.Switched.IsMode() && len(out) == 0 {
		out = append(out, h.Made)
	}
	return out
}

// Snapshot contains a node's partitions and their holders at one moment.
type Snapshot struct {
	Parts    []runstate.Part
	Units    []UnitDevices
	Reserved map[string]string   // name of the reservation, by partition
	Open     map[string][]string // units and processes that have a partition open, by partition
	Awaited  map[string]string   // the process that waits to change the GPU of a partition, by partition
	Made     map[string]string   // the lease that has made the MIG instance of a partition, by partition

	// Switched has the compute modes that leases have set, by GPU.
	Switched map[partition.Address]made.Name

	// Late are the GPUs whose partitions are leased last, see [placement.Want].
	Late map[partition.Address]int

	Held HeldMemory

	Cleaning Cleaning

	Hours  []Hours
	At     time.Time                    // the time of the snapshot; zero: now
	closed map[partition.Address]string // why no lease gets partitions of a GPU, see seenBy

	// Dynamic reads the GPUs that leases divide; nil: there are none.
	Dynamic func() ([]DynamicGPU, error)
}

func (s Snapshot) dynamicGPUs() ([]DynamicGPU, error) {
	if s.Dynamic == nil {
		return nil, nil
	}
	list, err := s.Dynamic()
	list = slices.Clone(list)
	for i := range list {
		g := &list[i]
		g.Refused = cmp.Or(s.Held.refused(g.GPU), s.closed[g.GPU])
		if s.Held.of(g.GPU) != "" {
			g.Late = placement.MaxLate
		}
	}
	// Of equally good GPUs the first is taken.
	slices.SortStableFunc(list, func(a, b DynamicGPU) int { return a.Late - b.Late })
	return list, err
}

// after returns the snapshot as it will be after the end of some units.
func (s Snapshot) after(ended func(unit string) bool) Snapshot {
	s.Units = slices.DeleteFunc(slices.Clone(s.Units), func(u UnitDevices) bool { return ended(u.Unit) })
	open := make(map[string][]string)
	for part, users := range s.Open {
		open[part] = slices.DeleteFunc(slices.Clone(users), ended)
	}
	s.Open = open
	return s.withGPUs(func(g DynamicGPU) DynamicGPU {
		g.Made = slices.DeleteFunc(slices.Clone(g.Made), func(m made.Name) bool { return ended(m.Lease) })
		return g
	})
}

// withGPUs returns the snapshot with other dynamic GPUs.
func (s Snapshot) withGPUs(change func(DynamicGPU) DynamicGPU) Snapshot {
	read := s.Dynamic
	if read == nil {
		return s
	}
	s.Dynamic = func() ([]DynamicGPU, error) {
		list, err := read()
		out := make([]DynamicGPU, len(list))
		for i, g := range list {
			out[i] = change(g)
		}
		return out, err
	}
	return s
}

// leases returns the units that are leases.
func (s Snapshot) leases() []string {
	var out []string
	for _, u := range s.Units {
		if _, ok := unitname.ParseLease(u.Unit); ok {
			out = append(out, u.Unit)
		}
	}
	return out
}

// Allocations returns each partition with its holders.
func Allocations(s Snapshot) []Allocation {
	units := make(map[string][]string) // active units, by the nodes that they may open
	for _, u := range s.Units {
		for i, node := range u.Allowed {
			if u.Active && !slices.Contains(u.Allowed[:i], node) {
				units[node] = append(units[node], u.Unit)
			}
		}
	}
	out := make([]Allocation, len(s.Parts))
	for i, p := range s.Parts {
		h := Allocation{Part: p, Units: units[p.Render], For: s.Reserved[p.Name], Awaited: cmp.Or(s.Awaited[p.Name], s.Held.refused(p.GPU), s.closed[p.GPU], s.Cleaning.Pending[p.Name]), Made: s.Made[p.Name]}
		for _, user := range s.Open[p.Name] {
			if !slices.Contains(h.Units, user) {
				h.Users = append(h.Users, user)
			}
		}
		if claim, ok := s.Switched[p.GPU]; ok {
			h.Made, h.Switched = claim.Unit(), claim
		}
		out[i] = h
	}
	return out
}

// taken returns the partitions that cannot be allocated.
func taken(allocations []Allocation) map[string]bool {
	out := make(map[string]bool)
	for _, h := range allocations {
		if !h.Free() {
			out[h.Name] = true
		}
	}
	return out
}

// unshareable returns the partitions that a lease cannot share with of-1 others: they have a holder
// that does not share, are shared with another limit, or already have that many leases.
func unshareable(allocations []Allocation, of int) map[string]bool {
	out := make(map[string]bool)
	for _, h := range allocations {
		others := slices.ContainsFunc(h.Units, func(unit string) bool {
			n, ok := unitname.ParseLease(unit)
			return !ok || n.Of != of
		})
		if others || h.For != "" || h.Awaited != "" || h.Made != "" || len(h.Users) > 0 || len(h.Units) >= of {
			out[h.Name] = true
		}
	}
	return out
}

// onlyShared returns the partitions in no, and those that no lease has yet.
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

// count returns how many partitions the leases of some users have. counts selects the users. It is
// called once for each user, since it may read the group database.
func count(allocations []Allocation, counts func(uid uint32) bool) int {
	byUser := make(map[uint32]int)
	for _, h := range allocations {
		for _, unit := range h.Units {
			if name, ok := unitname.ParseLease(unit); ok {
				byUser[name.UID]++
			}
		}
	}
	n := 0
	for uid, partitions := range byUser {
		if counts(uid) {
			n += partitions
		}
	}
	return n
}
