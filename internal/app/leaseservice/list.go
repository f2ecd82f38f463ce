package leaseservice

import (
	"cmp"
	"context"
	"fmt"

	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sorting"
)

// List returns the leases, the oldest first. It reads them from PID 1, so the daemon need not run.
func List(ctx context.Context, h *host.Host) ([]status.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the leases: %w", err)
	}
	defer conn.Close()
	return list(ctx, conn)
}

// list returns the leases, the oldest first.
func list(ctx context.Context, conn *systemd.Conn) ([]status.Lease, error) {
	// The description has the partitions, so the device lists are not read.
	units, err := conn.Cgroups.UnitsInSlice(ctx, unitname.Slice, false)
	if err != nil {
		return nil, fmt.Errorf("cannot read the leases: %w", err)
	}
	var names []string
	for _, u := range units {
		if isLease(u.Unit) {
			names = append(names, u.Unit)
		}
	}
	terms, err := conn.Transients.Terms(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("cannot read the leases: %w", err)
	}
	return leasesOf(units, terms), nil
}

// leasesOf returns those of the units that are leases. A lease without a term has ended.
func leasesOf(units []systemd.Tenant, terms map[string]systemd.Term) []status.Lease {
	out := []status.Lease{}
	for _, u := range units {
		name, ok := unitname.ParseLease(u.Unit)
		term, active := terms[u.Unit]
		if !ok || !active {
			continue
		}
		l := status.Lease{
			Lease: u.Unit, UID: name.UID, User: host.UserName(name.UID), Since: term.Began,
			Exclusive: name.Kind == unitname.ExclusiveLease, Share: name.Of,
		}
		l.Partitions, l.Command = lease.ParseDescription(u.Description)
		if term.Limit > 0 {
			until := term.Began.Add(term.Limit)
			l.Until = &until
		}
		out = append(out, l)
	}
	sorting.By(out, func(a, b status.Lease) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Lease, b.Lease)) })
	return out
}
