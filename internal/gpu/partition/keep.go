package partition

import (
	"cmp"
	"slices"
)

// keeper selects the placements that keep the most of the existing instances.
type keeper struct {
	now   []Instance // the existing instances, in the form of MIG.sorted
	users map[int][]InstanceUser
	least changeCost // no placement costs less

	best []Instance // nil before the first offer
	cost changeCost // of best
}

// changeCost is the cost of a change, the most important part first.
type changeCost struct {
	blocking  int // users that prevent it
	users     int // other interrupted users
	destroyed int // destroyed instances
}

func (c changeCost) compare(o changeCost) int {
	return cmp.Or(cmp.Compare(c.blocking, o.blocking), cmp.Compare(c.users, o.users), cmp.Compare(c.destroyed, o.destroyed))
}

func newKeeper(want []Instance, now Existing) *keeper {
	k := &keeper{now: MIG{Instances: now.Instances}.sorted(), users: now.Users}
	left := slices.Clone(want)
	for _, i := range k.now {
		at := slices.IndexFunc(left, func(w Instance) bool { return compareInstances(w, i) == 0 })
		if at < 0 {
			k.least.destroyed++ // no placement keeps it
			continue
		}
		left = slices.Delete(left, at, at+1)
	}
	return k
}

// offer remembers the placements if they cost less than all earlier ones. It returns true if
// no others can cost less.
func (k *keeper) offer(list []Instance) bool {
	if c := k.costOf(list); k.best == nil || c.compare(k.cost) < 0 {
		k.best, k.cost = append([]Instance{}, list...), c
	}
	return k.cost.compare(k.least) <= 0
}

// costOf returns the cost of a change to the placements.
func (k *keeper) costOf(list []Instance) changeCost {
	var c changeCost
	var interrupted map[InstanceUser]bool
	for _, i := range k.now {
		if slices.ContainsFunc(list, i.stays) {
			continue
		}
		c.destroyed++
		for _, user := range k.users[i.Start] {
			if interrupted == nil {
				interrupted = make(map[InstanceUser]bool)
			}
			interrupted[user] = true
		}
	}
	for user := range interrupted {
		if user.Blocks {
			c.blocking++
		} else {
			c.users++
		}
	}
	return c
}

// stays reports whether the wanted instance is this one at its placement. Both are in the
// form of [MIG.sorted].
func (i Instance) stays(want Instance) bool {
	return i.Start == want.Start && compareInstances(i, want) == 0
}

// difference returns which instances of a geometry stay in another one, which are removed and
// which are created.
func (m MIG) difference(want MIG) (kept, removed, created []Instance) {
	now, after := m.sorted(), want.sorted()
	for _, i := range now {
		if i.Start != unplaced && slices.ContainsFunc(after, i.stays) {
			kept = append(kept, i)
		} else {
			removed = append(removed, i)
		}
	}
	for _, i := range after {
		if !slices.ContainsFunc(kept, i.stays) {
			created = append(created, i)
		}
	}
	for _, list := range [][]Instance{kept, removed, created} {
		slices.SortStableFunc(list, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
	}
	return kept, removed, created
}
