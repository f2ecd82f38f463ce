package daemon

import (
	"context"
	"log/slog"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// The driver refuses an open of a GPU that is being switched. Clients wait for the end of a run. Another
// service that is started meanwhile may fail. These are reported until they are no longer failed.

// failedStarts returns the services that were started while the run changed GPUs, and failed.
func (t *transaction) failedStarts(ctx context.Context, r result) []string {
	if !slices.ContainsFunc(t.report.Steps, func(s runstate.Step) bool { return !s.Started.IsZero() }) {
		return nil
	}
	end := t.report.Finished
	if end.IsZero() { // it was killed
		end = r.restart.Settled
	}
	failed, err := t.pid1.Failures.StartedAndFailed(ctx, t.report.Started, end)
	if err != nil {
		t.pass.log.Warn("cannot determine which services failed during the change", "error", err)
	}
	failed = slices.DeleteFunc(failed, func(unit string) bool {
		return unitname.Own(unit) || slices.ContainsFunc(r.clients, func(c runstate.Client) bool { return c.Unit == unit })
	})
	for _, unit := range failed {
		t.pass.log.Warn(hintOf(unit), "unit", unit)
	}
	return failed
}

func hintOf(unit string) string {
	return unit + " was started during the change and failed; systemctl restart " + unit
}

// stillFailed returns those of the services that are failed.
func stillFailed(ctx context.Context, conn *connection, log *slog.Logger, services []string) []string {
	if len(services) == 0 {
		return nil
	}
	var now []systemd.Unit
	pid1, err := conn.open(ctx)
	if err == nil {
		now, err = pid1.States.List(ctx, services, systemd.States)
	}
	if err != nil {
		log.Warn("cannot read the states of services that failed during a change", "error", err)
		return services
	}
	return names(slices.DeleteFunc(now, func(u systemd.Unit) bool { return u.Active != "failed" }))
}
