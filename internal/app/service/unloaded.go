package service

import (
	"context"
	"log/slog"

	"dcm/internal/app/host"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/event"
	"dcm/internal/exitcode"
)

// bringBack loads a driver that a run has left unloaded, where the configuration has
// no profile, or none that can be used.
func bringBack(ctx context.Context, h *host.Host, rec *apply.Recorder, log *slog.Logger) error {
	log.Warn("a run has left the driver unloaded: loading it")
	err := apply.Load(ctx, h.Node(nil, woken(log)), reloadTimeout, rec)
	if err == nil {
		return nil
	}
	failure := apply.Explain(err)
	rec.Refuse("", failure)
	log.Error(failure.Text, "error", failure.Text, "cure", failure.Cure, event.ReloadFailed.Attr())
	if failure.Transient {
		return exitcode.With(exitcode.Transient, nil)
	}
	return exitcode.With(exitcode.Permanent, nil)
}
