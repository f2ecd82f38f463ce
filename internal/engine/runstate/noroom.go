package runstate

import (
	"maps"

	"dcm/internal/gpu/partition"
)

// NoRoomSince returns the GPUs whose driver, in this boot, did not create the missing MIG instances of a
// geometry next to those that stay. Only the driver knows this fragmentation, so each report copies that
// of the report that it replaces. A GPU that has the geometry now is not listed. last may be nil.
func NoRoomSince(last *Run, boot string) map[partition.Address]partition.Shape {
	if last == nil || last.Boot != boot {
		return nil
	}
	out := maps.Clone(last.NoRoom)
	for _, g := range last.GPUs {
		if want, ok := out[g.Address]; ok && g.Now.Same(want) {
			delete(out, g.Address)
		}
	}
	return out
}
