package placement

import (
	"slices"

	"dcm/internal/partition"
)

// flow returns a way to meet all reservations out of what is free, as the number of
// partitions from each GPU, or nil if there is none: a maximum flow from the
// reservations through the GPUs that each may use. It is found by augmenting paths,
// one partition at a time.
func (a *assignment) flow(list []Reservation) []map[partition.Address]int {
	f := network{free: perGPU(a.free()), given: make([]map[partition.Address]int, len(list)), list: list}
	f.gpus = order(f.free)
	for i, r := range list {
		f.given[i] = make(map[partition.Address]int)
		for range r.Partitions {
			if !f.augment(i, make(map[partition.Address]bool)) {
				return nil
			}
		}
	}
	return f.given
}

type network struct {
	list  []Reservation
	gpus  []partition.Address
	free  map[partition.Address]int
	given []map[partition.Address]int
}

// augment finds one more partition for a reservation, if need be by having another
// one move to a GPU that it may use as well.
func (f *network) augment(r int, tried map[partition.Address]bool) bool {
	for _, gpu := range f.gpus {
		if tried[gpu] || f.list[r].Among != nil && !slices.Contains(f.list[r].Among, gpu) {
			continue
		}
		tried[gpu] = true
		if f.free[gpu] > 0 || f.makeRoom(gpu, tried) {
			f.free[gpu]--
			f.given[r][gpu]++
			return true
		}
	}
	return false
}

func (f *network) makeRoom(gpu partition.Address, tried map[partition.Address]bool) bool {
	for other := range f.list {
		if f.given[other] != nil && f.given[other][gpu] > 0 && f.augment(other, tried) {
			f.given[other][gpu]--
			f.free[gpu]++
			return true
		}
	}
	return false
}
