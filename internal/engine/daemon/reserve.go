package daemon

import (
	"context"
	"errors"
	"fmt"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// reserve chooses partitions again if only reservations have changed. It restarts
// dcm-reserve.service once, with the units whose partitions change and no others.
func (p *pass) reserve(ctx context.Context) result {
	if p.Reserve == nil {
		return result{}
	}
	due, err := p.Reserve(ctx, p.settings)
	wrong, refused := errors.AsType[interface {
		error
		Hint() string
	}](err)
	switch {
	case refused: // the units that would have to change are left as they are
		return result{problem: &runstate.Error{Text: err.Error(), Hint: wrong.Hint()}, holders: holdersOf(err)}
	case err == nil && !due:
		return result{}
	}
	p.starts.taken = p.starts.pending // of a choice that failed before
	var r result
	if err == nil {
		r, err = p.choose(ctx)
	}
	if err != nil {
		return again(runstate.Error{Text: "cannot choose partitions for the reservations: " + err.Error()})
	}
	return r
}

// choose makes the transaction in which dcm-reserve.service chooses. With an error no unit
// was stopped.
func (p *pass) choose(ctx context.Context) (result, error) {
	u, err := p.pid1.connect(ctx)
	if err != nil {
		return result{}, err
	}
	clients, err := u.List(ctx, p.settings.Order.Clients, systemd.All)
	if err != nil {
		return result{}, fmt.Errorf("cannot read the clients' states: %w", err)
	}
	stopped, err := systemd.RestartedUnits(ctx, u, u, unitname.Reserve, nil)
	if err != nil {
		return result{}, fmt.Errorf("cannot tell which units a restart would stop: %w", err)
	}
	if r, throttled, err := p.throttle(ctx, u); err != nil {
		return result{}, err
	} else if throttled && r.throttle > 0 {
		return result{retryReserve: r.failure, throttle: r.throttle}, nil
	}
	p.log.Info("choosing partitions: the choice for the reservations is out of date")
	t := transaction{pass: p, units: u, unit: unitname.Reserve, clients: clients, stopped: stopped}
	return t.do(ctx, t.restartReserve)
}

// holdersOf returns the processes whose end may resolve an error.
func holdersOf(err error) []runstate.Holder {
	held, ok := errors.AsType[interface {
		error
		Holders() []runstate.Holder
	}](err)
	if !ok {
		return nil
	}
	return held.Holders()
}
