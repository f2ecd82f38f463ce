package placement

import (
	"cmp"
	"maps"
	"slices"

	"dcm/internal/gpu/partition"
)

// flow returns, for each reservation, how many free partitions of each cell it gets, or nil if they
// cannot all be met. It computes a maximum flow from the reservations to the cells with augmenting
// paths, one partition at a time.
func (a *assignment) flow(list []Reservation) []map[cell]int {
	f := network{free: make(map[cell]int), given: make([]map[cell]int, len(list)), list: list}
	for _, p := range a.free() {
		f.free[cellOf(p)]++
	}
	f.cells = slices.SortedFunc(maps.Keys(f.free), func(a, b cell) int {
		return cmp.Or(cmp.Compare(lateOf(list, a.gpu), lateOf(list, b.gpu)), a.gpu.Compare(b.gpu), cmp.Compare(a.kind, b.kind))
	})
	for i, r := range list {
		f.given[i] = make(map[cell]int)
		for range r.Partitions {
			if !f.augment(i, make(map[cell]bool)) {
				return nil
			}
		}
	}
	return f.given
}

// lateOf returns the highest number of a GPU in [Want.Late] of the reservations.
func lateOf(list []Reservation, gpu partition.Address) int {
	most := 0
	for _, r := range list {
		most = max(most, r.Late[gpu])
	}
	return most
}

type network struct {
	list  []Reservation
	cells []cell
	free  map[cell]int
	given []map[cell]int
}

// augment finds one more partition for a reservation. If necessary, it moves another reservation's
// partition to a different cell.
func (f *network) augment(r int, tried map[cell]bool) bool {
	for _, c := range f.cells {
		if tried[c] || !f.list[r].takes(c) {
			continue
		}
		tried[c] = true
		if f.free[c] > 0 || f.makeRoom(c, tried) {
			f.free[c]--
			f.given[r][c]++
			return true
		}
	}
	return false
}

// makeRoom frees a partition of a cell: it moves a reservation that has one there to another cell.
func (f *network) makeRoom(c cell, tried map[cell]bool) bool {
	for other := range f.list {
		if f.given[other] != nil && f.given[other][c] > 0 && f.augment(other, tried) {
			f.given[other][c]--
			f.free[c]++
			return true
		}
	}
	return false
}
