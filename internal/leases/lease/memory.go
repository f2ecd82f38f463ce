package lease

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/sorting"
)

// MemoryLimits is how many bytes of each GPU's memory somebody may have. The kernel knows the
// memory of a GPU and not of a partition: who shares some of a GPU's partitions has of
// its memory the sum of what is his of each.
type MemoryLimits map[partition.Address]uint64

// String says "8 GiB of 0000:05:00.0".
func (c MemoryLimits) String() string {
	var out []string
	for _, gpu := range sorting.From(maps.Keys(c), partition.Address.Compare) {
		out = append(out, fmt.Sprintf("%s of %s", amount(c[gpu]), gpu))
	}
	return strings.Join(out, ", ")
}

func amount(bytes uint64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<30)), ".0") + " GiB"
}

// memoryLimitsOf returns the share of one of so many in the partitions, nil if the memory of one
// of them is not known.
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

// MemoryLimitsOf tells what each of the units below [Slice] that share something may have,
// whose DeviceAllow= is given: shared leases, and the instances of a reservation's
// template. One of which that is not known is there with nil.
func MemoryLimitsOf(p runstate.Partitions, units map[string][]string) map[string]MemoryLimits {
	out := make(map[string]MemoryLimits)
	for unit, allow := range units {
		if r := SharedBy(p, unit); r != nil {
			out[unit] = memoryLimitsOf(those(p, func(part runstate.Part) bool { return slices.Contains(r.Partitions, part.Name) }), r.Share)
		} else if n, ok := ParseName(unit); ok && n.Kind == Shared {
			out[unit] = memoryLimitsOf(those(p, func(part runstate.Part) bool { return slices.Contains(allow, part.Render) }), n.Of)
		}
	}
	return out
}

func those(p runstate.Partitions, wanted func(runstate.Part) bool) []runstate.Part {
	return slices.DeleteFunc(slices.Clone(p.Parts), func(part runstate.Part) bool { return !wanted(part) })
}

// SharedBy is the reservation whose template a unit is an instance of, nil if there is
// none. One with a reservation of its own shares nothing.
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
