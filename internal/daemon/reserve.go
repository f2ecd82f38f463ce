package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dcm/internal/report"
	"dcm/internal/systemd"
	"dcm/internal/unitname"
)

// reserve has partitions chosen anew where reservations alone have changed: one restart
// of the unit that chooses, which the units that have to move are part of by then, and
// no others.
func (p *pass) reserve(ctx context.Context) outcome {
	if p.Reserve == nil {
		return outcome{}
	}
	due, err := p.Reserve(ctx, p.settings)
	wrong, refused := errors.AsType[interface {
		error
		Cure() string
	}](err)
	switch {
	case refused: // those who would have to move are left as they are
		return outcome{problem: &report.Error{Text: err.Error(), Cure: wrong.Cure()}, holders: awaited(err)}
	case err != nil:
		return transient(err)
	case !due:
		return outcome{}
	}
	u, err := p.connect(ctx)
	if err != nil {
		return transient(err)
	}
	before, err := u.Units(ctx, p.settings.Order.Clients)
	if err != nil {
		return transient(fmt.Errorf("cannot read the clients' states: %w", err))
	}
	// It is part of the unit that chooses: what was let go opens for others when it is back.
	guard, err := u.Units(ctx, []string{unitname.Guard})
	if err != nil {
		return transient(fmt.Errorf("cannot read the guard's state: %w", err))
	}
	p.Log.Info("choosing partitions: the reservations have changed")
	limit, cancel := context.WithTimeout(ctx, p.Limits.Run)
	defer cancel()
	p.extend(p.Limits.Run)
	run, err := u.Restart(limit, unitname.Reserve)
	if err != nil {
		return transient(err)
	}
	var o outcome
	p.verify(ctx, u, before, slices.DeleteFunc(guard, func(u systemd.Unit) bool { return u.Active != "active" }), &o)
	if run.Active == "failed" {
		o.problem = &report.Error{Text: "not all reservations can be met", Cure: "reserve less, or select a profile with more partitions; journalctl -u " + unitname.Reserve + " tells more"}
	}
	return o
}

// awaited are those whose end may mend an error.
func awaited(err error) []report.Holder {
	held, ok := errors.AsType[interface {
		error
		Holders() []report.Holder
	}](err)
	if !ok {
		return nil
	}
	return held.Holders()
}
