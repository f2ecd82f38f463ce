package daemon

import (
	"context"
	"errors"
	"fmt"

	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// reserve has partitions chosen anew where reservations alone have changed: one restart
// of the unit that chooses, which the units that have to move are part of by then, and
// no others.
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
	case refused: // those who would have to move are left as they are
		return result{problem: &runstate.Error{Text: err.Error(), Cure: wrong.Hint()}, holders: awaited(err)}
	case err == nil && !due:
		return result{}
	}
	p.owes = p.owed // of a choice that failed before
	var o result
	if err == nil {
		o, err = p.choose(ctx)
	}
	if err != nil {
		return again(runstate.Error{Text: "cannot choose partitions for the reservations: " + err.Error()})
	}
	return o
}

// choose makes the transaction in which dcm-reserve.service chooses. With an error no unit
// was stopped.
func (p *pass) choose(ctx context.Context) (result, error) {
	u, err := p.connect(ctx)
	if err != nil {
		return result{}, err
	}
	clients, err := u.Units(ctx, p.settings.Order.Clients)
	if err != nil {
		return result{}, fmt.Errorf("cannot read the clients' states: %w", err)
	}
	bounced, err := systemd.RestartedUnits(ctx, u, unitname.Reserve, nil)
	if err != nil {
		return result{}, fmt.Errorf("cannot tell which units a restart would stop: %w", err)
	}
	if o, spared, err := p.restartThrottle(ctx, u); err != nil {
		return result{}, err
	} else if spared && o.spared > 0 {
		return result{later: o.failure, spared: o.spared}, nil
	}
	p.Log.Info("choosing partitions: the choice for the reservations is out of date")
	return p.transact(ctx, u, transaction{unit: unitname.Reserve, clients: clients, bounced: bounced, run: p.restartReserve})
}

// restartReserve restarts dcm-reserve.service and classifies how it ended. Its exit status
// 69 means that no choice meets all reservations; after any other failure, a signal, a
// timeout or a full file system, it is run again.
func (p *pass) restartReserve(ctx context.Context, u Units) result {
	limit, cancel := context.WithTimeout(ctx, p.Limits.Run)
	defer cancel()
	p.extend(p.Limits.Run)
	run, err := u.Restart(limit, unitname.Reserve)
	switch {
	case err != nil:
		return again(runstate.Error{Text: "cannot choose partitions for the reservations: " + err.Error()})
	case run.Active != "failed":
		return result{}
	case run.Result == "exit-code" && !run.Failed.Signal && run.Failed.Status == exitcode.Permanent:
		return result{problem: &runstate.Error{Text: "not all reservations can be met", Cure: "reserve less, or select a profile with more partitions; journalctl -u " + unitname.Reserve + " tells more"}}
	}
	return again(runstate.Error{
		Text: "the partitions of the reservations were not chosen: " + unitname.Reserve + " failed: " + whyEnded(run),
		Cure: "dcm tries again by itself; journalctl -u " + unitname.Reserve + " may tell more",
	})
}

// awaited are those whose end may mend an error.
func awaited(err error) []runstate.Holder {
	held, ok := errors.AsType[interface {
		error
		Holders() []runstate.Holder
	}](err)
	if !ok {
		return nil
	}
	return held.Holders()
}
