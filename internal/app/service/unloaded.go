package service

import (
	"context"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/event"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// loadDriver loads a driver that an earlier run has left unloaded, if the configuration selects no
// profile or cannot be used.
func (o *oneshot) loadDriver(ctx context.Context) error {
	o.log.Warn("a run has left the driver unloaded: loading it")
	err := apply.Load(ctx, host.OpenNode(o.host, nil, woken(o.log)).Drivers(), reloadTimeout, o.recorder)
	if err == nil {
		return nil
	}
	failure := apply.Explain(err)
	o.recorder.Refuse("", failure)
	o.log.Error(failure.Text, "error", failure.Text, "hint", failure.Hint, event.ReloadFailed.Attr())
	if failure.Transient {
		return exitcode.With(exitcode.Transient, nil)
	}
	return exitcode.With(exitcode.Permanent, nil)
}
