// Package sorting sorts lists of up to some hundred elements.
//
// The compiler generates [slices.SortFunc] again for each element type, about 20 KiB each.
// For two dozen types that was 5 % of the daemon's memory.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// By sorts the list. It is stable.
func By[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// From returns the values in a sorted list.
func From[E any](values iter.Seq[E], compare func(a, b E) int) []E {
	list := slices.Collect(values)
	By(list, compare)
	return list
}
