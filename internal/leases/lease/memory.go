package lease

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/unitname"
	"dcm/internal/sorting"
	"dcm/internal/text"
)

// MemoryLimits are limits on GPU memory, in bytes, by GPU. The kernel accounts memory by GPU, not by
// partition. So the limit of a unit that shares several partitions of a GPU is the sum of its shares.
type MemoryLimits map[partition.Address]uint64

// String returns a text such as "8 GiB of 0000:05:00.0".
func (c MemoryLimits) String() string {
	var out []string
	for _, gpu := range sorting.From(maps.Keys(c), partition.Address.Compare) {
		out = append(out, fmt.Sprintf("%s of %s", text.GiB(c[gpu]), gpu))
	}
	return strings.Join(out, ", ")
}

// memoryLimitsOf returns the limits of a unit that shares the partitions with of-1 others. It returns
// nil if the memory size of a partition is not known.
func memoryLimitsOf(parts []runstate.Part, of int) MemoryLimits {
	out := make(MemoryLimits)
	for _, p := range parts {
		if p.Memory == 0 || of < 1 {
			return nil
		}
		out[p.GPU] += p.Memory / uint64(of)
	}
	return out
}

// MemoryLimitsOf returns the limits of the units that share partitions: shared leases, and instances
// of a template with a reservation. units contains the DeviceAllow= of the units below dcm.slice. The
// value is nil if the limits are not known.
func MemoryLimitsOf(p runstate.Partitions, units map[string][]string) map[string]MemoryLimits {
	out := make(map[string]MemoryLimits)
	for unit, allow := range units {
		if r := SharedBy(p, unit); r != nil {
			out[unit] = memoryLimitsOf(partsWhere(p, func(part runstate.Part) bool { return slices.Contains(r.Partitions, part.Name) }), r.Share)
		} else if n, ok := unitname.ParseLease(unit); ok && n.Kind == unitname.SharedLease {
			out[unit] = memoryLimitsOf(partsWhere(p, func(part runstate.Part) bool { return slices.Contains(allow, part.Render) }), n.Of)
		}
	}
	return out
}

func partsWhere(p runstate.Partitions, wanted func(runstate.Part) bool) []runstate.Part {
	return slices.DeleteFunc(slices.Clone(p.Parts), func(part runstate.Part) bool { return !wanted(part) })
}

// SharedBy returns the reservation that a unit shares as an instance of its template, nil if there is
// none. An instance with a reservation of its own shares no partition.
func SharedBy(p runstate.Partitions, unit string) *runstate.Reservation {
	stem, _, instance := strings.Cut(unit, "@")
	if slices.ContainsFunc(p.Reservations, func(r runstate.Reservation) bool { return r.Unit == unit && r.Share == 0 }) {
		return nil
	}
	for i, r := range p.Reservations {
		if instance && r.Share > 0 && r.Unit == stem+"@.service" {
			return &p.Reservations[i]
		}
	}
	return nil
}
