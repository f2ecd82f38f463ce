package sequence

import (
	"hash/fnv"
	"slices"
)

// Leases are the budget. A node may change while it holds a Lease.
type Leases struct {
	All []Lease
}

// Of returns the Leases of a pool.
func (l Leases) Of(pool string) []Lease {
	return slices.DeleteFunc(slices.Clone(l.All), func(l Lease) bool { return l.Pool != pool })
}

// Lease is one Lease of the budget.
type Lease struct {
	Name   string
	Pool   string // "" for the one of nodes without a pool
	Holder string // see [Holder]; "" if free
	Stale  bool   // the holder's node no longer has that operation
	Over   bool   // it is beyond the size of its pool: an operation keeps it, and none takes it
}

// Size returns how many nodes of a pool may change concurrently.
func (l Leases) Size(pool string) int {
	return len(slices.DeleteFunc(l.Of(pool), func(l Lease) bool { return l.Over }))
}

// Open returns the Lease of a pool that a node may take; nil if as many are held as the pool has. Those
// beyond its size count too, until their operations end.
func (l Leases) Open(pool, node string) *Lease {
	leases := l.Of(pool)
	held := slices.DeleteFunc(slices.Clone(leases), func(l Lease) bool { return l.Holder == "" || l.Stale })
	if len(held) >= l.Size(pool) {
		return nil
	}
	return open(slices.DeleteFunc(leases, func(l Lease) bool { return l.Over }), node)
}

// Holder returns the identity with which an operation holds a Lease.
func Holder(node, operation string) string { return node + "/" + operation }

// open returns the lease to take, a free one if possible. Nodes start at different leases,
// so that they seldom collide.
func open(all []Lease, node string) *Lease {
	if len(all) == 0 {
		return nil
	}
	h := fnv.New32a()
	h.Write([]byte(node))
	first := int(h.Sum32() % uint32(len(all)))
	turned := slices.Concat(all[first:], all[:first])
	for _, fits := range []func(Lease) bool{func(l Lease) bool { return l.Holder == "" }, func(l Lease) bool { return l.Stale }} {
		if i := slices.IndexFunc(turned, fits); i >= 0 {
			return &turned[i]
		}
	}
	return nil
}
