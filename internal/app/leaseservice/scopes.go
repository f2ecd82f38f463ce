package leaseservice

import (
	"context"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/systemd"
)

// scopes reads, stops and extends the units of leases. It implements [lease.Scopes].
type scopes struct {
	host    *host.Host
	reloads *reloads
}

func newScopes(h *host.Host) scopes {
	return scopes{h, newReloads(reloadInterval, func(ctx context.Context) error {
		conn, err := h.Dial(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Manager.Reload(ctx)
	})}
}

func (s scopes) Active(ctx context.Context, unit string) (bool, error) {
	conn, err := s.host.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	units, err := conn.Units.List(ctx, []string{unit}, systemd.States)
	if err != nil || len(units) != 1 {
		return false, err
	}
	return units[0].Active != "inactive" && units[0].Active != "failed", nil
}

func (s scopes) Stop(ctx context.Context, unit string) error {
	conn, err := s.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.Stop(ctx, unit)
}

// Terms reads the terms of leases from systemd.
func (s scopes) Terms(ctx context.Context, leases []string) (map[string]lease.Term, error) {
	out := make(map[string]lease.Term)
	if len(leases) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := s.host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	terms, err := conn.Transients.Terms(ctx, leases)
	for unit, t := range terms {
		out[unit] = lease.Term(t)
	}
	return out, err
}
