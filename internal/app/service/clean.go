package service

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

// cleanTimeout limits the cleaning of a partition. TimeoutStopSec= of dcm-clean@.service is longer.
const cleanTimeout = 20 * time.Second

// Clean is what dcm-clean@PARTITION.service runs at its stop: it cleans the partition, see [gpu.Cleaner]. The
// partition may be one that leases have made.
func Clean(ctx context.Context, h *host.Host, log *slog.Logger, name string) error {
	if err := h.NeedRoot("cleaning a partition"); err != nil {
		return err
	}
	address, index, err := runstate.ParsePartName(name)
	if err != nil {
		return exitcode.With(exitcode.Usage, err)
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout) // not half of it
	defer cancel()
	return cleanPartition(limit, host.OpenNode(h, nil), address, index, log)
}

func cleanPartition(ctx context.Context, node *gpu.Node, a partition.Address, index int, log *slog.Logger) error {
	name := runstate.PartName(a, index)
	if err := node.Clean(ctx, a, index); err != nil {
		if hint := gpu.Hint(err); hint != "" {
			return fmt.Errorf("%w\nhint: %s", err, hint)
		}
		return err
	}
	log.Info("cleaned the registers and local memories of "+name, "gpu", a, "partition", name)
	return nil
}

// CleanAfter is what a service with exclusive partitions runs at its end: it cleans them. If that fails,
// dcm-clean@PARTITION.service repeats it, so that the failure has a record.
func CleanAfter(ctx context.Context, h *host.Host, log *slog.Logger, unit string) error {
	if err := h.NeedRoot("cleaning partitions"); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	node := host.OpenNode(h, nil)
	var failed []string
	for _, name := range leaseservice.CleanedAfter(h, node, unit) {
		address, index, err := runstate.ParsePartName(name)
		if err == nil {
			err = cleanPartition(limit, node, address, index, log)
		}
		if err != nil {
			log.Warn(err.Error(), "unit", unit)
			failed = append(failed, name)
		}
	}
	return leaseservice.StartCleaning(context.WithoutCancel(ctx), h, failed)
}
