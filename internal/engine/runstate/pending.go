package runstate

import (
	"maps"

	"dcm/internal/gpu/partition"
)

// PendingSince returns the memory modes that were requested in this boot, GPU by GPU,
// and have not come with a load of the driver since. No driver shows a request; each
// report carries on that of the report that it replaces. last may be nil.
func PendingSince(last *Run, boot string) map[partition.Address]partition.Memory {
	if last == nil || last.Boot != boot {
		return nil
	}
	out := maps.Clone(last.Pending)
	if out == nil {
		out = make(map[partition.Address]partition.Memory)
	}
	for _, s := range last.Steps {
		switch {
		case s.Kind.Reloads() && !s.Started.IsZero() && s.Error == "":
			clear(out) // one that was killed at it is ended by the next
		case s.Kind == partition.RequestMemory && !s.Finished.IsZero() && s.Error == "":
			out[s.GPU] = partition.Memory(s.To)
			for _, member := range s.Hive {
				out[member] = partition.Memory(s.To)
			}
		}
	}
	return out
}
