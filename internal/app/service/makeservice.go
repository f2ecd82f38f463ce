package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/gpu/made"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/filelock"
)

// makeForService chooses the placement of the instance of a service, and creates it. It excludes new leases
// while it chooses: their placements are chosen from the same slots.
func makeForService(ctx context.Context, h *host.Host, log *slog.Logger, s made.Service) error {
	leases, err := filelock.Lock(h.Locks().Leases()) // waits for the end of a run
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	chosen := sync.OnceFunc(leases)
	defer chosen()
	// A run that begins now waits for the lock of leases, and then for this one.
	instances, err := filelock.Lock(h.Locks().Make())
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	defer instances()
	m := newMaker(h, log)
	m.Claimed = chosen
	if err := m.UnmakeOf(ctx, s); err != nil {
		return exitcode.With(exitcode.Transient, fmt.Errorf("an earlier instance of %s remains: %w", s.Unit, err))
	}
	n, err := placeFor(h, log, s)
	if err != nil {
		return fmt.Errorf("cannot create %s for %s: %w", s.Profile, s.Unit, err)
	}
	return create(ctx, m, n)
}

// placeFor chooses the placement of the instance of a service.
func placeFor(h *host.Host, log *slog.Logger, s made.Service) (made.Name, error) {
	cfg, err := h.Effective()
	if cfg == nil {
		return made.Name{}, exitcode.With(exitcode.Config, err)
	}
	r, ok := config.MakesFor(cfg.Reservations, s.Unit)
	if !ok || r.Make != s.Profile {
		return made.Name{}, exitcode.With(exitcode.Config, errors.New("the effective configuration has no such reservation\nhint: check the files with 'dcm check', then run 'systemctl daemon-reload'"))
	}
	gpus, err := leaseservice.NewPartitions(h, cfg, log).DynamicGPUs(r.GPUs)
	if err != nil {
		return made.Name{}, exitcode.With(exitcode.Transient, fmt.Errorf("%s: reservation %s: %w", r.Source, r.Name, err))
	}
	at, slot, err := lease.BestSlot(gpus, s.Profile)
	if err != nil {
		return made.Name{}, exitcode.With(exitClassOf(err), fmt.Errorf("%s: reservation %s: %w%s", r.Source, r.Name, err, holdersOf(gpus)))
	}
	return made.Name{Lease: s.Unit, GPU: gpus[at].GPU, Profile: s.Profile, Start: slot.Start}, nil
}

// exitClassOf returns the exit status for an error of [lease.BestSlot].
func exitClassOf(err error) int {
	if _, later := errors.AsType[*lease.InsufficientError](err); later {
		return exitcode.Transient
	}
	return exitcode.Permanent
}

// holdersOf names the holders of instances on the GPUs.
func holdersOf(gpus []lease.DynamicGPU) string {
	text := ""
	for _, g := range gpus {
		for _, n := range g.Made {
			text += fmt.Sprintf("\n%s has %s at slot %d of %s", n.Lease, n.Profile, n.Start, n.GPU)
		}
	}
	return text
}
