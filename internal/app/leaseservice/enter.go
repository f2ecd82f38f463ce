package leaseservice

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/lease"
)

// Enter moves the caller into a lease that other processes may enter.
func (s *Service) Enter(ctx context.Context, who dbusapi.Caller, unit string) ([]string, error) {
	if err := lease.MayEnter(who.Owner, unit); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := s.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	active, err := list(ctx, conn)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(active, func(l status.Lease) bool { return l.Lease == unit })
	if i < 0 {
		return nil, fmt.Errorf("%s: no such lease; it may have ended", unit)
	}
	held, err := conn.Transients.Delegated(ctx, unit)
	switch {
	case err != nil:
		return nil, err
	case !held:
		return nil, fmt.Errorf("%s: only the leases of dcm lease hold can be entered", unit)
	}
	if err := who.Process.Check(); err != nil {
		return nil, err
	}
	if err := conn.Processes.Attach(ctx, unit, "", uint32(who.PID)); err != nil {
		return nil, err
	}
	if err := who.Process.Check(); err != nil {
		return nil, err
	}
	if err := s.partitions.processes.inside(who.PID, unit); err != nil {
		return nil, err
	}
	s.log.Info("a process has entered a lease", "unit", unit, "uid", who.UID, "pid", who.PID)
	return active[i].Partitions, nil
}
