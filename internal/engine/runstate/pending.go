package runstate

import (
	"maps"

	"dcm/internal/gpu/partition"
)

// PendingSince returns the memory modes that were requested in this boot and that no load of the
// driver has put into effect since. The driver does not show a request, so each report copies
// those of the report that it replaces. last may be nil.
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
			clear(out) // the next run completes a reload during which a run was killed
		case s.Kind == partition.RequestMemory && !s.Finished.IsZero() && s.Error == "":
			out[s.GPU] = partition.Memory(s.To)
			for _, member := range s.Hive {
				out[member] = partition.Memory(s.To)
			}
		}
	}
	return out
}
