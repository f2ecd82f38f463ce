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
	"dcm/internal/linux/filelock"
)

// makeForService chooses the placement of the instance of a service, and creates it. It excludes new leases
// while it chooses: their placements are chosen from the same slots.
func makeForService(ctx context.Context, h *host.Host, log *slog.Logger, s made.Service) error {
	if err := Unmake(ctx, h, log, s.String()); err != nil { // before leases are excluded: it may take long
		return fmt.Errorf("an earlier instance of %s remains: %w", s.Unit, err)
	}
	leases, err := filelock.Lock(h.Locks().Leases()) // waits for the end of a run
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	chosen := sync.OnceFunc(leases)
	defer chosen()
	// A run that begins now waits for the lock of leases, and then for this one.
	instances, err := filelock.LockShared(h.Locks().Make())
	if err != nil {
		return exitcode.With(exitcode.Transient, err)
	}
	defer instances()
	m := newMaker(h, log)
	m.Claimed = chosen
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
	n, later, err := leaseservice.PlaceFor(h, cfg, s, r.GPUs)
	code := exitcode.Permanent
	if later {
		code = exitcode.Transient
	}
	if err != nil {
		return n, exitcode.With(code, fmt.Errorf("%s: reservation %s: %w", r.Source, r.Name, err))
	}
	return n, nil
}
