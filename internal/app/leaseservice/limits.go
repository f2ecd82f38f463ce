package leaseservice

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
)

// limitsOf are the limits that a configuration has for leases.
func limitsOf(l config.Leases) lease.Limits {
	out := lease.Limits{PerUser: l.PerUser, Shares: l.Shares, Default: l.DefaultTime, Longest: l.MaxTime}
	for _, g := range l.Groups {
		out.Groups = append(out.Groups, lease.GroupLimits{Name: g.Name, PerUser: g.PerUser, Total: g.Total, Longest: g.MaxTime})
	}
	return out
}

// ApplyLimits makes the limits of the effective configuration those of the allocator.
func (s *Service) ApplyLimits() { s.allocator.Limit(limitsOf(s.config().Leases)) }

// limited returns which of the groups with limits a user is in: by the groups of the
// caller's connection, and by the group database, which a process cannot leave.
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

// gidOf is the number of a group, by its name or its number.
func gidOf(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	gid, err := strconv.ParseUint(name, 10, 32)
	return uint32(gid), err
}

// registered reports whether the group database has a user in a group.
func registered(uid, gid uint32) bool {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	all, err := u.GroupIds()
	return err == nil && slices.Contains(all, strconv.FormatUint(uint64(gid), 10))
}

// member reports whether a user is in a group: by the group database, or by a process in a
// lease of the user's, for users of a directory that this program cannot query.
func (p *Host) member(uid uint32, group string) bool {
	gid, err := gidOf(group)
	if err != nil {
		return false
	}
	return registered(uid, gid) || slices.ContainsFunc(host.LeaseUnits(p.host), func(unit string) bool {
		n, _ := unitname.ParseLease(unit)
		return n.UID == uid && slices.Contains(p.groupsIn(unit), gid)
	})
}

// groupsIn are the groups of the first process of a lease.
func (p *Host) groupsIn(unit string) []uint32 {
	procs, err := os.ReadFile(p.host.Path("sys/fs/cgroup", unitname.Slice, unit, "cgroup.procs"))
	pid, _, _ := strings.Cut(string(procs), "\n")
	if err != nil || pid == "" {
		return nil
	}
	status, err := os.ReadFile(p.host.Path("proc", pid, "status"))
	if err != nil {
		return nil
	}
	var out []uint32
	for line := range strings.Lines(string(status)) {
		key, list, _ := strings.Cut(line, ":")
		if key != "Gid" && key != "Groups" {
			continue
		}
		for _, id := range strings.Fields(list) {
			if gid, err := strconv.ParseUint(id, 10, 32); err == nil {
				out = append(out, uint32(gid))
			}
		}
	}
	return out
}
