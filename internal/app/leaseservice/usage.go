package leaseservice

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
)

// Usage returns how much of each partition is in use, and its holders. Values that this process has
// no permission to read are missing.
func Usage(ctx context.Context, h *host.Host) status.Usage {
	cfg, err := h.Effective()
	if cfg == nil {
		u := gather.Usage(ctx, h, nil)
		u.Hide(status.PartHolders, err)
		return u
	}
	return NewPartitions(h, cfg, slog.New(slog.DiscardHandler)).usage(ctx)
}

// usage returns the usage. It does not read the GPUs while a run changes them.
func (p *Partitions) usage(ctx context.Context) status.Usage {
	if busy, err := filelock.Held(p.host.Locks().Run()); err == nil && busy {
		u := status.Usage{Version: status.Version, Taken: time.Now()}
		u.Hide(status.PartUses, errors.New("the GPUs are being partitioned"))
		return u
	}
	snapshot, seen, err := p.snapshot(ctx)
	if err != nil {
		var unseen error
		if seen, unseen = p.node.Usage(ctx); unseen != nil {
			err = errors.Join(err, unseen)
		}
	} else {
		err = p.node.Attach(seen.Holders)
	}
	u := gather.Usage(ctx, p.host, seen.Holders)
	whose := holdersOf(snapshot.WithHours())
	for i := range u.Parts {
		u.Parts[i].Holders = whose[u.Parts[i].Name]
	}
	u.Hide(status.PartHolders, err)
	if err == nil {
		u.Leases, err = List(ctx, p.host)
		u.Hide(status.PartLeases, err)
	}
	if len(seen.Uninspected) > 0 {
		u.Hide(status.PartProcesses, &gpu.PartialError{Uninspected: seen.Uninspected})
	}
	return u
}

// Usage returns the usage in JSON, also for users who have no permission to read the files.
func (s *Service) Usage(ctx context.Context) (string, error) {
	text, err := json.Marshal(s.partitions.usage(ctx))
	return string(text), err
}

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
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	r, err := p.read(ctx)
	if err != nil {
		return status.HeldParts{}, err
	}
	defer r.conn.Close()
	snapshot, _, err := p.collect(ctx, r)
	leases, unlisted := list(ctx, r.conn)
	held := status.HeldParts{Holders: holdersOf(snapshot), Leases: leases}
	var undated error
	held.Since, undated = activeSince(ctx, r.conn, held.Holders)
	return held, errors.Join(err, unlisted, undated)
}

// activeSince returns when the services among the holders became active, by name. A lease has its own start.
func activeSince(ctx context.Context, conn *systemd.Conn, holders map[string][]string) (map[string]time.Time, error) {
	services := make(map[string]bool)
	for _, list := range holders {
		for _, name := range list {
			services[name] = strings.HasSuffix(name, ".service")
		}
	}
	maps.DeleteFunc(services, func(_ string, is bool) bool { return !is })
	if len(services) == 0 {
		return make(map[string]time.Time), nil
	}
	return conn.Units.Since(ctx, slices.Sorted(maps.Keys(services)))
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
