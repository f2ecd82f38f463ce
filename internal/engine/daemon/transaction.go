package daemon

import (
	"context"
	"fmt"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// transaction is one restart of dcm-apply.service or dcm-reserve.service, with the units
// that systemd stops and starts again around it.
type transaction struct {
	unit    string
	clients []systemd.Unit // as they are before it
	bounced []systemd.Unit // those of them, and their dependents, that it takes down
	run     func(context.Context, Units) result
}

// transact makes the transaction. Before it, the daemon writes down what is to be started
// again if the run fails; after it, the units are compared with what they were. An error
// means that no unit was stopped.
func (p *pass) transact(ctx context.Context, u Units, t transaction) (result, error) {
	triggers, err := u.Triggers(ctx, loaded(t.clients, t.bounced))
	if err != nil {
		return result{}, fmt.Errorf("cannot read which units start the clients: %w", err)
	}
	owes := p.owed.plus(t.bounced).plus(triggers)
	if err := p.applying(t.unit, owes); err != nil {
		return result{}, err
	}
	p.owes = owes
	p.pin(ctx, u)
	p.clearCounters(ctx, u, t.bounced)
	p.Log.Info(restarting(t.unit, t.bounced))
	o := t.run(ctx, u)
	p.verify(ctx, u, t, triggers, &o)
	if o.failure == nil && o.later == nil {
		if o.late { // systemd has started none of those that require the unit
			p.owed = p.owes
		}
		p.owes = nil
	}
	return o, nil
}

// loaded returns the names of units that have a unit file, each once.
func loaded(lists ...[]systemd.Unit) []string {
	var out []string
	seen := make(map[string]bool)
	for _, units := range lists {
		for _, u := range units {
			if u.Load == "loaded" && !seen[u.ID] {
				seen[u.ID] = true
				out = append(out, u.ID)
			}
		}
	}
	return out
}

// again is an result where the profile is on the GPUs, and a run of dcm-reserve.service
// has to be made, or made again.
func again(e runstate.Error) result {
	e.Transient = true
	return result{later: &e}
}

// whyEnded describes how a unit of dcm's own failed, as systemd saw it.
func whyEnded(u systemd.Unit) string {
	switch {
	case u.Result == "timeout":
		return "it took longer than its TimeoutStartSec= and was ended"
	case u.Failed.Path != "":
		return u.Failed.String()
	case u.Result == "" || u.Result == "success":
		return "it is " + u.Active
	}
	return fmt.Sprintf("result %q", u.Result)
}
