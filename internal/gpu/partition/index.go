package partition

import (
	"fmt"
	"slices"

	"dcm/internal/sorting"
)

// Absent is a GPU that the node has had and that is missing now. It keeps its index.
type Absent struct {
	Vendor  Vendor
	Address Address
}

// MissingError reports that a selector names a GPU that is missing now.
type MissingError struct {
	Selector Selector
	Address  Address
}

func (e *MissingError) Error() string {
	if e.Selector.Address != "" {
		return fmt.Sprintf("GPU %s is missing", e.Address)
	}
	return fmt.Sprintf("GPU %s (%s) is missing", e.Selector, e.Address)
}

// Indices returns the index of each GPU of a node: its position in PCI order among the GPUs of its vendor.
// The missing GPUs are among them.
func Indices[V comparable](vendors map[Address]V) map[Address]int {
	out := make(map[Address]int)
	next := make(map[V]int)
	all := make([]Address, 0, len(vendors))
	for a := range vendors {
		all = append(all, a)
	}
	sorting.By(all, Address.Compare)
	for _, a := range all {
		out[a] = next[vendors[a]]
		next[vendors[a]]++
	}
	return out
}

// numbered returns the addresses of the GPUs by their indices, with the missing ones. All GPUs are of one
// vendor.
func numbered(gpus []GPU) []Address {
	all := addresses(gpus)
	for _, g := range gpus {
		for _, m := range g.Missing {
			if m.Vendor == g.Vendor && !slices.Contains(all, m.Address) {
				all = append(all, m.Address)
			}
		}
	}
	sorting.By(all, Address.Compare)
	return all
}

// isMissing reports whether the GPU is one of those that are missing.
func isMissing(a Address, gpus []GPU) bool {
	return slices.ContainsFunc(gpus, func(g GPU) bool {
		return slices.ContainsFunc(g.Missing, func(m Absent) bool { return m.Address == a })
	})
}
