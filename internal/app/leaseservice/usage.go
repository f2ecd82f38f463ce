package leaseservice

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"dcm/internal/app/host"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/filelock"
)

// Usage is how much of the host's partitions is in use, and who has them, as far as
// that can be seen from here.
func Usage(ctx context.Context, h *host.Host) status.Usage {
	cfg, err := h.InForce()
	if cfg == nil {
		u := h.Usage(ctx, nil)
		u.Hide(status.PartHolders, err)
		return u
	}
	return NewHost(h, cfg, slog.New(slog.DiscardHandler)).usage(ctx)
}

// usage touches no GPU while a run is at work on it.
func (p *Host) usage(ctx context.Context) status.Usage {
	if busy, err := filelock.Held(p.host.Lock()); err == nil && busy {
		u := status.Usage{Version: status.Version, Taken: time.Now()}
		u.Hide(status.PartUses, errors.New("the GPUs are being partitioned"))
		return u
	}
	f, seen, err := p.facts(ctx)
	if err != nil {
		var unseen error
		if seen, unseen = p.node.Usage(ctx); unseen != nil {
			err = errors.Join(err, unseen)
		}
	}
	u := p.host.Usage(ctx, seen.Holders)
	whose := make(map[string][]string)
	for _, held := range lease.Allocations(f) {
		whose[held.Name] = held.Whose()
	}
	for i := range u.Parts {
		u.Parts[i].Holders = whose[u.Parts[i].Name]
	}
	u.Hide(status.PartHolders, err)
	if len(seen.Uninspected) > 0 {
		u.Hide(status.PartProcesses, &gpu.PartialError{Uninspected: seen.Uninspected})
	}
	return u
}

// Usage is for everybody: what a user may not see the daemon tells.
func (l *Service) Usage(ctx context.Context) (string, error) {
	text, err := json.Marshal(l.host.usage(ctx))
	return string(text), err
}
