package leaseservice

import (
	"context"
	"errors"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/linux/unitname"
)

// CleanedAfter returns the partitions that are cleaned after the end of a service: those of its exclusive
// reservation, if the driver can clean them and the configuration permits it.
func CleanedAfter(h *host.Host, node *gpu.Node, unit string) []string {
	cfg, _ := h.Effective()
	reserved, err := runstate.ReadReservations(h.Runtime())
	if err != nil || reserved == nil || cfg != nil && cfg.Leases.Clean == config.NoCleaning {
		return nil
	}
	return slices.DeleteFunc(reserved.ExclusiveOf(unit), func(name string) bool {
		address, _, err := runstate.ParsePartName(name)
		return err != nil || !node.Cleans(address)
	})
}

// StartCleaning starts the units that clean the partitions, and does not wait. Nothing needs these units: systemd
// stops them, and that cleans.
func StartCleaning(ctx context.Context, h *host.Host, partitions []string) error {
	if len(partitions) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var errs []error
	for _, name := range partitions {
		errs = append(errs, conn.Jobs.Start(ctx, unitname.CleanFor(name)))
	}
	return errors.Join(errs...)
}

// cleanKilled cleans the partitions of a service that has ended without its commands for that, as after SIGKILL to all its
// processes (systemd 257). A service that runs again keeps its partitions as they are.
func cleanKilled(ctx context.Context, h *host.Host, node *gpu.Node, unit string) error {
	partitions := CleanedAfter(h, node, unit)
	if len(partitions) == 0 {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	conn, err := h.Dial(limit)
	if err != nil {
		return err
	}
	defer conn.Close()
	skipped, err := conn.Units.SkippedStopPost(limit, unit)
	if err != nil || !skipped {
		return err
	}
	return StartCleaning(ctx, h, partitions)
}

// serviceEnded cleans the partitions of a service that could not do so itself, and looks for failures.
func (s *Service) serviceEnded(ctx context.Context, unit string) {
	if err := cleanKilled(ctx, s.host, s.partitions.node, unit); err != nil {
		s.log.Warn("cannot clean the partitions of "+unit+": "+err.Error(), "unit", unit)
	}
	s.retryCleaningSoon()
}
