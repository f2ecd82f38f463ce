package daemon

import (
	"context"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// judge records, before a run stops and starts units, why units with a pending start are down. Afterwards PID 1 knows only the
// last stop and start of each unit, which may be of the new run.
func (s *starter) judge(ctx context.Context, states UnitReader) error {
	if len(s.pending) == 0 {
		return nil
	}
	now, err := states.List(ctx, s.pending.names(), systemd.All)
	if err != nil {
		return err
	}
	units, err := endedUnits(ctx, states, now, rests)
	if err != nil {
		return err
	}
	lying := slices.DeleteFunc(slices.Clone(units), func(d down) bool { return d.Up() })
	waits, err := s.dependenciesFailed(ctx, states, lying)
	if err != nil {
		return err
	}
	for _, d := range lying {
		if waits[d.ID] != "" { // the run may restart the unit that it waits for
			s.pending.record(d.Unit, runstate.DependencyFailed)
		}
	}
	s.pending.mark(units, s.require)
	s.pending.release(units, s.require)
	return nil
}
