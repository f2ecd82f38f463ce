package lease

import (
	"fmt"
	"maps"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/text"
)

// HeldMemory has the GPUs with memory in use that no process holds.
type HeldMemory struct {
	GPUs   []runstate.MemoryHeld
	Refuse bool // leases do not take their partitions; otherwise they take them last
}

// of returns a text about the held memory of a GPU, "" if it has none.
func (m HeldMemory) of(gpu partition.Address) string {
	if bytes := runstate.HeldOn(m.GPUs, gpu); bytes > 0 {
		return fmt.Sprintf("%s of memory in use that no process holds", text.GiB(bytes))
	}
	return ""
}

// refused is of for a GPU whose partitions are not taken.
func (m HeldMemory) refused(gpu partition.Address) string {
	if !m.Refuse {
		return ""
	}
	return m.of(gpu)
}

// Late returns the GPUs to avoid, see [placement.Want.Late], with those that have held memory.
func (m HeldMemory) Late(late map[partition.Address]int) map[partition.Address]int {
	if len(m.GPUs) == 0 {
		return late
	}
	out := make(map[partition.Address]int)
	maps.Copy(out, late)
	for _, held := range m.GPUs {
		out[held.GPU] = placement.MaxLate
	}
	return out
}

// notes returns a text for each GPU of a choice that has held memory.
func (m HeldMemory) notes(parts []runstate.Part) []string {
	var out []string
	for _, p := range parts {
		if why := m.of(p.GPU); why != "" {
			if note := fmt.Sprintf("%s has %s; a program may get less memory there (see dcm status)", p.GPU, why); !slices.Contains(out, note) {
				out = append(out, note)
			}
		}
	}
	return out
}
