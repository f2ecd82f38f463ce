package service

import (
	"context"
	"log/slog"

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
