package lease

import (
	"fmt"
	"slices"
	"time"
)

// Limits are the configuration's. None of them applies to root.
type Limits struct {
	PerUser int           // partitions that one user may have by leases; 0 for no limit
	Shares  int           // leases that may share one partition
	Default time.Duration // of a lease without a time of its own; 0 for no limit
	Longest time.Duration // that a lease may last; 0 for no limit
	Groups  []GroupLimits
}

// GroupLimits are the limits for the members of a group, in addition to those for all.
type GroupLimits struct {
	Name    string
	PerUser int // partitions that one member may have; 0 for no limit
	Total   int // partitions that all members together may have; 0 for no limit
	Longest time.Duration
}

// LimitError is a refusal because of the partitions that the user, or the user's group,
// already has.
type LimitError struct {
	Name              string // of the limit: "max-per-user in [leases]"
	Has, Wants, Limit int
	key               string
}

func (e *LimitError) Error() string {
	if e.Wants > e.Limit {
		return fmt.Sprintf("%d requested, but %s is %d", e.Wants, e.Name, e.Limit)
	}
	return fmt.Sprintf("%d more would exceed %s = %d: %d in use", e.Wants, e.Name, e.Limit, e.Has)
}

// bound is one limit on partitions that applies to a caller.
type bound struct {
	key    string // equal for callers whose leases count together
	name   string
	limit  int
	counts func(uid uint32) bool // whose leases count
}

// bounds returns the limits on partitions that apply to a caller.
func (a *Allocator) bounds(c Caller) []bound {
	if c.UID == 0 {
		return nil
	}
	a.mu.Lock()
	limits := a.limits
	a.mu.Unlock()
	own := func(uid uint32) bool { return uid == c.UID }
	all := []bound{{fmt.Sprintf("user %d", c.UID), "max-per-user in [leases]", limits.PerUser, own}}
	for _, g := range limits.Groups {
		if !slices.Contains(c.Groups, g.Name) {
			continue
		}
		table := "[leases.groups." + g.Name + "]"
		all = append(all,
			bound{fmt.Sprintf("user %d of group %s", c.UID, g.Name), "max-per-user in " + table, g.PerUser, own},
			bound{"group " + g.Name, "max-total in " + table, g.Total, func(uid uint32) bool { return own(uid) || a.Member != nil && a.Member(uid, g.Name) }})
	}
	return slices.DeleteFunc(all, func(b bound) bool { return b.limit == 0 })
}

// allowed returns an error for a choice that exceeds a limit: that which is exceeded most.
func (a *Allocator) allowed(allocations []Allocation, c Caller, n int) error {
	var worst *LimitError
	for _, b := range a.bounds(c) {
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

// limitTime gives a request its time, and returns a note for the caller where that is not
// the one requested.
func (a *Allocator) limitTime(c Caller, r *Request) (note string, err error) {
	if c.UID == 0 {
		return "", nil
	}
	a.mu.Lock()
	limits := a.limits
	a.mu.Unlock()
	longest, name := limits.Longest, "max-time in [leases]"
	for _, g := range limits.Groups {
		if slices.Contains(c.Groups, g.Name) && g.Longest > 0 && (longest == 0 || g.Longest < longest) {
			longest, name = g.Longest, "max-time in [leases.groups."+g.Name+"]"
		}
	}
	switch {
	case longest > 0 && r.Time > longest:
		return "", &ImpossibleError{fmt.Errorf("%s requested, but %s is %s", r.Time, name, longest)}
	case r.Time > 0:
		return "", nil
	case limits.Default > 0 && (longest == 0 || limits.Default <= longest):
		longest, name = limits.Default, "default-time in [leases]"
	}
	if r.Time = longest; longest == 0 {
		return "", nil
	}
	return fmt.Sprintf("the lease ends after %s (%s)", r.Time, name), nil
}
