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
	Refused   *runstate.Error     // nil: it would begin
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
			return out, nil
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
