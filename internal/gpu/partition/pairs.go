package partition

import "slices"

// acceptsPair reports whether the GPU accepts the two modes together, after a change of the
// memory mode. The device's own list comes first. The table of models is for another
// node than this host, and for kernels that list no pairs.
func acceptsPair(g GPU, c Compute, n Memory) bool {
	if memory, listed := g.MemoryFor[c]; listed {
		return slices.Contains(memory, n)
	}
	if g.SupportedCompute != nil && !slices.Contains(g.SupportedCompute, c) {
		return false
	}
	m, _ := LookupModel(g.Vendor, g.Device)
	return m.Accepts(c, n)
}

// computeWith lists the compute modes that are accepted with memory mode n; nil if unknown.
func computeWith(g GPU, n Memory) []Compute {
	m, _ := LookupModel(g.Vendor, g.Device)
	if m.accepted == nil && !listsAllPairs(g) {
		return nil
	}
	var out []Compute
	for _, c := range ComputeModes() {
		if acceptsPair(g, c, n) {
			out = append(out, c)
		}
	}
	return out
}

// listsAllPairs reports whether the device's list has every compute mode that it supports.
func listsAllPairs(g GPU) bool {
	unknown := func(c Compute) bool {
		_, listed := g.MemoryFor[c]
		return !listed
	}
	return g.SupportedCompute != nil && !slices.ContainsFunc(g.SupportedCompute, unknown)
}
