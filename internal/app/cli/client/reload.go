package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/procstat"
	"dcm/internal/linux/unitname"
	"dcm/internal/linux/watch"
)

// reportQuietInterval is how long the report of a run must be unchanged before it is read again.
const reportQuietInterval = 30 * time.Millisecond

// AwaitReload waits while a run reloads the driver of the GPUs, since no GPU can be read then. It says so by note. It
// does not wait in a process of the run itself. If ctx ends, the error has the exit code of a transient failure.
func AwaitReload(ctx context.Context, h *host.Host, note func(string)) error {
	run := reloading(h)
	if run == nil || slices.Contains(unitname.Runs(), h.Self().Unit) {
		return nil
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed, err := watch.Files(watching, []string{h.Runtime()}, reportQuietInterval, slog.New(slog.DiscardHandler))
	if err != nil {
		return exitcode.With(exitcode.Transient, fmt.Errorf("the GPUs cannot be read while a change reloads their driver: %w", err))
	}
	for first := true; ; first = false {
		if run = reloading(h); run == nil {
			return nil
		}
		if first {
			note(fmt.Sprintf("waiting for the change to profile %s, which reloads the driver of the GPUs", run.Profile))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return exitcode.With(exitcode.Transient, errors.New("interrupted: the GPUs cannot be read while a change reloads their driver\nhint: run the command again after the change; dcm status shows its progress"))
		}
	}
}

// reloading returns the run that reloads a driver now; nil if there is none.
func reloading(h *host.Host) *runstate.Run {
	run, err := runstate.ReadRun(h.Runtime())
	if err != nil || run == nil || run.Result != runstate.Running || procstat.Ended(h.Path("proc", strconv.Itoa(run.PID))) {
		return nil
	}
	if !slices.ContainsFunc(run.Steps, func(s runstate.Step) bool { return s.Kind.Reloads() && !s.Started.IsZero() && s.Finished.IsZero() }) {
		return nil
	}
	return run
}
