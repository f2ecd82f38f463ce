// Package sorting puts lists in order by a comparison. It is for lists of some dozens or
// hundreds, of any kind.
//
// [slices.SortFunc] is compiled anew for each type of element, some 20 KiB of program
// each time: of two dozen types that was 5 % of what the daemon has in memory.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// By sorts the list. What compares as equal keeps its order.
func By[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// From collects the values and sorts them.
func From[E any](values iter.Seq[E], compare func(a, b E) int) []E {
	list := slices.Collect(values)
	By(list, compare)
	return list
}
