package service

import (
	"context"
	"log/slog"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/gpu"
	"dcm/internal/linux/watch"
)

// woken wakes waits for a GPU by kernel events. If events are not available, the wait polls.
func woken(log *slog.Logger) gpu.Option {
	return gpu.Events(func(ctx context.Context, about func(subsystem, path string) bool) <-chan struct{} {
		events, err := new(watch.Set).Devices(ctx, watch.Interest{
			About: func(u watch.Uevent) bool { return about(u.Subsystem, u.Path) },
		}, deviceSettleDelay, log)
		if err != nil {
			log.Warn(err.Error())
		}
		return events
	})
}

// A run's report is published when it has not changed for stepSettleDelay, and at the latest after
// stepMaxDelay.
const (
	stepSettleDelay = 100 * time.Millisecond
	stepMaxDelay    = 500 * time.Millisecond
)

// watchReport returns a channel that receives when a run has written its report, until ctx ends.
func watchReport(ctx context.Context, h *host.Host, log *slog.Logger) (<-chan struct{}, error) {
	return new(watch.Set).FilesWithin(ctx, []string{h.Runtime()}, stepSettleDelay, stepMaxDelay, log)
}
