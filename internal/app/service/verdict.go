package service

import (
	"fmt"
	"log/slog"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
)

// reportEnd logs how the run ended, and returns its exit status.
func reportEnd(log *slog.Logger, run runstate.Run) error {
	log = log.With("profile", run.Profile, "result", string(run.Result), "gpu", run.Touched())
	if run.Result == runstate.Round {
		log.Info(fmt.Sprintf("a round of the change to profile %s has ended (%s)", run.Profile, summary(run)))
		return nil
	}
	if run.Result.OK() {
		log.Info(fmt.Sprintf("profile %s is on the GPUs (%s)", run.Profile, summary(run)), event.Applied.Attr())
		return nil
	}
	text := fmt.Sprintf("profile %s is not on the GPUs (%s): %s", run.Profile, summary(run), run.Error.Text)
	log.Error(runstate.WithHint(text, run.Error.Hint), "error", run.Error.Text, "hint", run.Error.Hint, run.FailureEvent().Attr())
	if run.Error.Transient {
		return exitcode.With(exitcode.Transient, nil)
	}
	return exitcode.With(exitcode.Permanent, nil)
}

// summary is a run in a few words: "applied, 8 GPUs changed in 1.2s".
func summary(run runstate.Run) string {
	changed := 0
	for _, g := range run.GPUs {
		if g.Changed() {
			changed++
		}
	}
	took := run.Finished.Sub(run.Started).Round(time.Millisecond)
	return fmt.Sprintf("%s, %d of %d GPUs changed in %s", run.Result, changed, len(run.GPUs), took)
}
