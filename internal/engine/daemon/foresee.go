package daemon

import (
	"context"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// Forecast is what a run would do to units now.
type Forecast struct {
	Restarted []string            // the units that it would stop and start again
	Included  []string            // those of them that it would make clients first
	Holders   []runstate.Holder   // processes that would block it, or the GPUs in Left
	Left      []partition.Address // GPUs that it would leave as they are, since Holders block them
	Rounds    []Round             // of a change that is made in rounds; no units that are down now come up
	Waits     *runstate.Error     // why no round, or no further one, would begin before units are up; nil: each would
	Refused   *runstate.Error     // nil: it would begin
}

// Round is a round of a change.
type Round struct {
	GPUs  []partition.Address `json:"gpus"`
	Units []string            `json:"units"` // that it restarts
}

// Foresee returns what the daemon would do before a run, without doing it. scope is the scope of
// the run; blocking are the processes that block its steps.
func Foresee(ctx context.Context, pid1 PID1, s Settings, fit func(units []string) []string, scope *Scope, blocking []runstate.Holder) (Forecast, error) {
	var out Forecast
	for {
		next, err := choose(ctx, pid1, blockers{states: pid1.States, order: pid1.Order, settings: s, fit: fit}, scope, blocking)
		if err != nil {
			return out, err
		}
		out.Restarted = ids(next.restart.stopped)
		if len(next.remaining) == 0 {
			out.Holders, out.Left = next.left, next.leaves
			return out, out.addRounds(ctx, pid1, next)
		}
		found := next.includable(next.remaining)
		if len(found) == 0 {
			refused := next.refuse(append(next.left, next.remaining...))
			out.Holders, out.Refused = refused.holders, refused.failure
			return out, nil
		}
		out.Included = append(out.Included, found...)
		s.Order.Clients = append(slices.Clone(s.Order.Clients), found...)
	}
}

// addRounds adds the rounds that the budgets permit.
func (f *Forecast) addRounds(ctx context.Context, pid1 PID1, c chosen) error {
	l := limits{budgets: c.settings.Budgets, settle: c.settings.SettleTime}
	if l.none() {
		return nil
	}
	s, now, err := l.selection(ctx, pid1, c, nil)
	if err != nil {
		return err
	}
	for unit := range now.settles {
		delete(s.down, unit) // it will have settled
	}
	for len(s.parts) > 0 {
		round := s.next()
		if len(round) == 0 {
			if _, why := l.why(s, now); why.Transient {
				f.Waits = why
			} else {
				f.Refused = why
			}
			return nil
		}
		joined := merged(round)
		f.Rounds = append(f.Rounds, Round{GPUs: joined.gpus, Units: append([]string{}, joined.units...)})
		s.parts = slices.DeleteFunc(s.parts, func(p part) bool {
			return slices.ContainsFunc(round, func(q part) bool { return slices.Equal(p.gpus, q.gpus) })
		})
	}
	if c.scope == nil || c.scope.Part == nil {
		f.Rounds = nil // all GPUs change together
	}
	return nil
}
