package leaseservice

import (
	"context"
	"errors"
	"log/slog"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/lease"
)

// Held returns the holders of the partitions, and the leases.
func Held(ctx context.Context, h *host.Host) (status.HeldParts, error) {
	cfg, err := h.Effective()
	if cfg == nil {
		return status.HeldParts{}, err
	}
	return NewPartitions(h, cfg, slog.New(slog.DiscardHandler)).Held(ctx)
}

// Held returns the holders of the partitions as they are in a usage, and the leases.
func (p *Partitions) Held(ctx context.Context) (status.HeldParts, error) {
	if last, err := runstate.ReadPartitions(p.host.Runtime()); err == nil && last == nil {
		return status.HeldParts{}, nil // no run has listed them yet
	}
	snapshot, _, err := p.snapshot(ctx)
	leases, unlisted := List(ctx, p.host)
	return status.HeldParts{Holders: holdersOf(snapshot), Leases: leases}, errors.Join(err, unlisted)
}

// Held is [Partitions.Held] of the daemon.
func (s *Service) Held(ctx context.Context) (status.HeldParts, error) { return s.partitions.Held(ctx) }

// holdersOf returns the names of the holders of each partition.
func holdersOf(s lease.Snapshot) map[string][]string {
	out := make(map[string][]string)
	for _, held := range lease.Allocations(s) {
		out[held.Name] = held.Whose()
	}
	return out
}
