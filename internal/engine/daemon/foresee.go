package daemon

import (
	"context"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Foreseen is what a run would do to units at this moment.
type Foreseen struct {
	Restarted []string          // the units that it would stop and start again
	Included  []string          // those of them that it would make clients first
	Holders   []runstate.Holder // processes that would be in the way
	Refused   *runstate.Error   // nil: it would begin
}

// Foresee judges a run as the daemon does before it, and changes nothing. blocking are
// the processes that keep the steps from succeeding.
func Foresee(ctx context.Context, u Units, s Settings, fit func(units []string) []string, blocking []runstate.Holder) (Foreseen, error) {
	p := &pass{Daemon: &Daemon{Fit: fit}, settings: s}
	var out Foreseen
	for {
		var err error
		if p.clients, err = u.Units(ctx, p.settings.Order.Clients); err != nil {
			return out, err
		}
		bounced, err := systemd.RestartedUnits(ctx, u, unitname.Apply, p.clients)
		if err != nil {
			return out, err
		}
		out.Restarted = ids(bounced)
		foreign, err := p.remainingHolders(ctx, u, blocking, bounced)
		if err != nil || len(foreign) == 0 {
			return out, err
		}
		found := p.includable(foreign)
		if len(found) == 0 {
			refused := p.refuse(foreign)
			out.Holders, out.Refused = refused.holders, refused.failure
			return out, nil
		}
		out.Included = append(out.Included, found...)
		p.settings.Order.Clients = append(slices.Clone(p.settings.Order.Clients), found...)
	}
}
