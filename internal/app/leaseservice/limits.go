package leaseservice

import (
	"os/user"
	"slices"
	"strconv"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
)

// limitsOf returns the limits of leases in a configuration.
func limitsOf(c *config.Config) lease.Limits {
	l := c.Leases
	out := lease.Limits{Hours: len(c.UserReservations) > 0, PerUser: l.PerUser, Slots: l.SlotsPerUser, Shares: l.Shares, Default: l.DefaultTime, Longest: l.MaxTime}
	for _, g := range l.Groups {
		out.Groups = append(out.Groups, lease.GroupLimits{Name: g.Name, PerUser: g.PerUser, Total: g.Total, Longest: g.MaxTime})
	}
	return out
}

// ApplyLimits gives the limits of the effective configuration to the allocator.
func (s *Service) ApplyLimits() {
	s.allocator.Limit(limitsOf(s.config()))
	s.sweepSoon() // a reservation may create instances
}

// groupsOf returns the groups with limits that a user is in: by the groups of the caller's
// connection, and by the group database, which a process cannot avoid.
func (s *Service) groupsOf(uid uint32, groups []uint32) []string {
	var out []string
	for _, g := range s.config().Leases.Groups {
		gid, err := gidOf(g.Name)
		if err == nil && (slices.Contains(groups, gid) || registered(uid, gid)) {
			out = append(out, g.Name)
		}
	}
	return out
}

// gidOf returns the number of a group, given its name or number.
func gidOf(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	gid, err := strconv.ParseUint(name, 10, 32)
	return uint32(gid), err
}

// registered reports whether a user is in a group by the group database.
func registered(uid, gid uint32) bool {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	all, err := u.GroupIds()
	return err == nil && slices.Contains(all, strconv.FormatUint(uint64(gid), 10))
}

// member reports whether a user is in a group: by the group database, or by a process in a lease of the
// user, for users of a directory that this program cannot query.
func (p processes) member(uid uint32, group string) bool {
	gid, err := gidOf(group)
	if err != nil {
		return false
	}
	return registered(uid, gid) || slices.ContainsFunc(host.Leases(p.host), func(n unitname.Lease) bool {
		return n.UID == uid && slices.Contains(p.groups(n.String()), gid)
	})
}
