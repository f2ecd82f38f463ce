package lease

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"dcm/internal/linux/unitname"
)

// Limits are the configured limits of leases. None of them applies to root.
type Limits struct {
	PerUser int           // partitions that one user may have in leases; 0 for no limit
	Slots   int           // memory slots of the instances that one user may make; 0 for no limit
	Shares  int           // leases that may share one partition
	Default time.Duration // time limit of a lease that requests none; 0 for none
	Longest time.Duration // the longest time limit that a lease may request; 0 for no limit
	Groups  []GroupLimits
	Hours   bool // the snapshots have [Hours]
}

// GroupLimits are the limits for the members of a group, in addition to those for all.
type GroupLimits struct {
	Name    string
	PerUser int // partitions that one member may have; 0 for no limit
	Total   int // partitions that all members together may have; 0 for no limit
	Longest time.Duration
}

// policy applies the limits to requests.
type policy struct {
	member func(uid uint32, group string) bool // nil: no user is in any group

	mu     sync.Mutex
	limits Limits
}

func (p *policy) set(l Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = l
}

func (p *policy) get() Limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits
}

// complete replaces the zero values of a request by the configured ones. It returns an error if the
// configuration does not allow the request. setting is the one that has set the time limit, "" for none.
func (p *policy) complete(c Caller, r *Request) (setting string, err error) {
	if err := p.limitShares(r); err != nil {
		return "", err
	}
	return p.limitTime(c, r)
}

// limitShares sets how many leases may share a partition.
func (p *policy) limitShares(r *Request) error {
	if r.Kind != unitname.SharedLease {
		r.Of = 0
		return nil
	}
	most := min(max(p.get().Shares, 1), unitname.MaxShares)
	if r.Of == 0 {
		r.Of = most
	}
	switch {
	case most < 2:
		return fmt.Errorf("partitions cannot be shared (shares = %d in [leases])", most)
	case r.Of < 2 || r.Of > most:
		return fmt.Errorf("number of sharers: out of range (found %d, want 2 to %d: shares = %[2]d in [leases])", r.Of, most)
	}
	return nil
}

// limitTime sets the time limit of a request that has none. It returns an error if the requested limit
// is longer than the caller may have. setting is the one that has set the limit, "" for none.
func (p *policy) limitTime(c Caller, r *Request) (setting string, err error) {
	if c.UID == 0 {
		return "", nil
	}
	if err := p.checkTime(c, r.Time); err != nil {
		return "", err
	}
	limits := p.get()
	longest, name := limits.longest(c)
	switch {
	case r.Time > 0:
		return "", nil
	case limits.Default > 0 && (longest == 0 || limits.Default <= longest):
		longest, name = limits.Default, "default-time in [leases]"
	}
	if r.Time = longest; longest == 0 {
		return "", nil
	}
	return name, nil
}

// longest returns the longest time limit that a caller may have, and the name of the setting. It is 0 if
// there is no maximum.
func (l Limits) longest(c Caller) (limit time.Duration, name string) {
	limit, name = l.Longest, "max-time in [leases]"
	for _, g := range l.Groups {
		if slices.Contains(c.Groups, g.Name) && g.Longest > 0 && (limit == 0 || g.Longest < limit) {
			limit, name = g.Longest, "max-time in [leases.groups."+g.Name+"]"
		}
	}
	return limit, name
}

// checkTime returns an error if a time limit is longer than the caller may have.
func (p *policy) checkTime(c Caller, limit time.Duration) error {
	longest, name := p.get().longest(c)
	if c.UID != 0 && longest > 0 && limit > longest {
		return &ImpossibleError{fmt.Errorf("%s requested, but %s is %s", limit, name, longest)}
	}
	return nil
}

// bound is a limit on partitions that applies to a caller.
type bound struct {
	key    string // equal for callers whose leases are counted together
	name   string // of the setting
	limit  int
	counts func(uid uint32) bool // reports whether a user's leases count
}

// bounds returns the limits on partitions that apply to a caller.
func (p *policy) bounds(c Caller) []bound {
	if c.UID == 0 {
		return nil
	}
	limits := p.get()
	own := func(uid uint32) bool { return uid == c.UID }
	out := []bound{{fmt.Sprintf("user %d", c.UID), "max-per-user in [leases]", limits.PerUser, own}}
	for _, g := range limits.Groups {
		if !slices.Contains(c.Groups, g.Name) {
			continue
		}
		table := "[leases.groups." + g.Name + "]"
		out = append(out,
			bound{fmt.Sprintf("user %d of group %s", c.UID, g.Name), "max-per-user in " + table, g.PerUser, own},
			bound{"group " + g.Name, "max-total in " + table, g.Total, func(uid uint32) bool { return own(uid) || p.member != nil && p.member(uid, g.Name) }})
	}
	return slices.DeleteFunc(out, func(b bound) bool { return b.limit == 0 })
}

// check returns a [LimitError] if n more partitions would exceed a limit. Of several limits it names
// the one that would be exceeded most.
func (p *policy) check(allocations []Allocation, c Caller, n int) error {
	var worst *LimitError
	for _, b := range p.bounds(c) {
		has := count(allocations, b.counts)
		if has+n > b.limit && (worst == nil || b.limit-has < worst.Limit-worst.Has) {
			worst = &LimitError{b.name, has, n, b.limit, b.key}
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}
