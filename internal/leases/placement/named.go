package placement

import (
	"fmt"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// NameGPUs makes the request one for exactly these GPUs.
func (w Want) NameGPUs(gpus []partition.Address) Want {
	w.Partitions, w.GPUs, w.Among, w.Named = 0, len(gpus), gpus, true
	return w
}

// NamePartitions makes the request one for exactly these partitions.
func (w Want) NamePartitions(names []string) Want {
	w.Partitions, w.GPUs, w.Names, w.Named = len(names), 0, names, true
	return w
}

// List returns the names of the requested GPUs or partitions, nil if the request has a number.
func (w Want) List() []string {
	if !w.Named || w.Names != nil {
		return w.Names
	}
	var out []string
	for _, gpu := range w.Among {
		out = append(out, string(gpu))
	}
	return out
}

// Unknown returns the requested names that no partition of the node, or its GPU, has.
func (w Want) Unknown(node []runstate.Part) []string {
	return slices.DeleteFunc(slices.Clone(w.List()), func(name string) bool {
		return slices.ContainsFunc(node, func(p runstate.Part) bool { return p.Name == name || string(p.GPU) == name })
	})
}

// namedShort describes that of the named GPUs or partitions only some are free.
func (w Want) namedShort(free int) string {
	names := w.List()
	if len(names) == 1 {
		return names[0] + " is not free"
	}
	return fmt.Sprintf("%s requested, but %d of %d %s free", text.Few(names), free, len(names), are(free))
}
