package daemon

import (
	"context"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Forecast is what a run would do to units now.
type Forecast struct {
	Restarted []string          // the units that it would stop and start again
	Included  []string          // those of them that it would make clients first
	Holders   []runstate.Holder // processes that would block it
	Refused   *runstate.Error   // nil: it would begin
}

// Foresee returns what the daemon would do before a run, and changes nothing. blocking are the
// processes that keep the steps from succeeding.
func Foresee(ctx context.Context, pid1 PID1, s Settings, fit func(units []string) []string, blocking []runstate.Holder) (Forecast, error) {
	var out Forecast
	for {
		clients, err := pid1.States.List(ctx, s.Order.Clients, systemd.All)
		if err != nil {
			return out, err
		}
		stopped, err := systemd.RestartedUnits(ctx, pid1.States, pid1.Dependencies, unitname.Apply, clients)
		if err != nil {
			return out, err
		}
		out.Restarted = ids(stopped)
		b := blockers{states: pid1.States, order: pid1.Order, clients: clients, settings: s, fit: fit}
		remaining, err := b.remaining(ctx, blocking, stopped)
		if err != nil || len(remaining) == 0 {
			return out, err
		}
		found := b.includable(remaining)
		if len(found) == 0 {
			refused := b.refuse(remaining)
			out.Holders, out.Refused = refused.holders, refused.failure
			return out, nil
		}
		out.Included = append(out.Included, found...)
		s.Order.Clients = append(slices.Clone(s.Order.Clients), found...)
	}
}
