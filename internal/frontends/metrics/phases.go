package metrics

import (
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// Phases returns the measured durations of a run's phases. A run that the daemon did not request, such
// as the one at boot, has no phases stop and start.
func Phases(restart runstate.Restart, r runstate.Run) map[string]time.Duration {
	out := make(map[string]time.Duration)
	set := func(name string, from, to time.Time) {
		if !from.IsZero() && to.After(from) {
			out[name] = to.Sub(from)
		}
	}
	if restart.Run == r.ID && r.ID != "" {
		set("stop", restart.Asked, r.Started)
		if !r.Finished.IsZero() {
			set("start", r.Finished, restart.Settled)
		}
	}
	for name, kind := range map[string]partition.Kind{"reload": partition.ReloadDriver, "switch": partition.SwitchCompute} {
		from, to := span(r.Steps, kind)
		set(name, from, to)
	}
	return out
}

// span returns the beginning of the first and the end of the last step of a kind, undo steps
// included. Compute modes are switched concurrently.
func span(steps []runstate.Step, kind partition.Kind) (from, to time.Time) {
	for _, s := range steps {
		if s.Kind != kind || s.Started.IsZero() || s.Finished.IsZero() {
			continue
		}
		if from.IsZero() || s.Started.Before(from) {
			from = s.Started
		}
		if s.Finished.After(to) {
			to = s.Finished
		}
	}
	return from, to
}
