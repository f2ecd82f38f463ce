package daemon

import (
	"context"
	"errors"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// restartClients restarts dcm-apply.service, and with it the clients, or dcm-change.service with
// the clients that are affected. It restarts nothing if a holder would stay, or if the last
// attempts failed and the next one is not due. If again is true, it has restarted nothing, and the
// caller must compare the GPUs again.
func (p *pass) restartClients(ctx context.Context, scope *Scope, blocking []runstate.Holder) (r result, again bool) {
	pid1, err := p.conn.open(ctx)
	if err != nil {
		return transient(err), false
	}
	if waited, err := p.conn.awaitStartedRun(ctx, pid1.States); err != nil {
		return transient(err), false
	} else if waited {
		return result{}, true
	}
	next, err := choose(ctx, pid1, blockers{states: pid1.States, order: pid1.Order, settings: p.settings, fit: p.Fit}, scope, blocking)
	if err != nil {
		return transient(err), false
	}
	if len(next.remaining) > 0 {
		return p.include(&next.blockers, append(next.left, next.remaining...))
	}
	if r, found := unseenHolder(ctx, p.Use, p.unseen); found {
		return r, false
	}
	if r, throttled, err := p.throttle(ctx, pid1); err != nil {
		return transient(err), false
	} else if throttled {
		return r, false
	}
	if r, waits, err := p.narrow(ctx, pid1, &next); err != nil {
		return transient(err), false
	} else if waits {
		return r, false
	}
	if next.restart.change != nil {
		next.restart.withheld = next.scope.withheld(p.settings)
	}
	if c := next.restart.change; c != nil && next.scope.leavesOthers() {
		c.Later = slices.Sorted(slices.Values(slices.Concat(next.scope.others, next.leaves)))
	}
	t := transaction{pass: p, pid1: pid1, restart: next.restart}
	if r, err = t.do(ctx); err != nil {
		return transient(err), false
	}
	if r.round && next.scope.leavesOthers() {
		r.holders, r.left = next.left, next.leaves
	}
	return r, false
}

// changeWaiting changes the GPUs that waited for their holders. The result is the failure of the abandoned
// GPUs, unless the change fails for another reason than a holder.
func (p *pass) changeWaiting(ctx context.Context, now Observation) (r result, again bool) {
	if len(now.GPUs) > 0 {
		if r, again = p.restartClients(ctx, now.Scope, now.Blocking); again {
			return r, true
		}
		if r.clients == nil && len(r.holders) > 0 {
			r.failure, r.left = nil, now.GPUs
		}
	}
	if r.failure == nil {
		r.round, r.progress, r.failure = false, nil, p.abandoned.failure
	}
	r.abandoned = p.abandoned
	return r, false
}

func (p *pass) throttle(ctx context.Context, pid1 PID1) (result, bool, error) {
	return p.failures.throttle(ctx, pid1.States, p.Limits.Retry, p.GPUs.DriverUnloaded)
}

// include makes the services among the holders clients, if the settings allow that and no other
// holder is left; then the caller must compare the GPUs again. Otherwise it refuses, because a
// restart would not free the GPUs.
func (p *pass) include(b *blockers, holders []runstate.Holder) (r result, again bool) {
	found := b.includable(holders)
	if len(found) == 0 {
		return b.refuse(holders), false
	}
	p.log.included(found)
	if err := p.Include(found); err != nil {
		return transient(err), false
	}
	// The drop-ins of these settings have to name them too: otherwise systemd is not reloaded,
	// and the restart does not stop them.
	p.settings.Order.Clients = append(slices.Clone(p.settings.Order.Clients), found...)
	return result{}, true
}

// loadDriver starts a run that loads the driver, which an earlier run left unloaded. Clients that
// systemd started after that run, and that ended without the driver, are pending too, whatever
// requested that run.
func (p *pass) loadDriver(ctx context.Context) (r result, again bool) {
	pid1, err := p.conn.open(ctx)
	if err != nil {
		return transient(err), false
	}
	killed, err := pid1.States.End(ctx, unitname.Apply)
	if err != nil {
		return transient(err), false
	}
	// If the configuration cannot be used, PID 1 still knows the clients.
	clients, err := listClients(ctx, pid1, slices.Concat(p.settings.Order.Clients, killed.Parts, p.starts.pending.names()))
	if err != nil {
		return transient(err), false
	}
	lying, err := downUnits(ctx, pid1.States, clients)
	if err != nil {
		return transient(err), false
	}
	for _, l := range lying {
		_, known := p.starts.pending[l.ID]
		if !known && l.Settled() && l.end.Tried > killed.Began && (l.end.Skipped || l.end.ExitedOnItsOwn(l.Unit)) {
			p.starts.pending.record(l.Unit, runstate.LeftDown)
		}
	}
	p.log.Warn("a run has left the driver unloaded: starting another run to load it")
	return p.restartClients(ctx, nil, nil)
}

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
		return result{problem: &runstate.Error{Text: err.Error(), Hint: wrong.Hint(), Unmet: true}, holders: holdersOf(err)}
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

// choose restarts dcm-reserve.service, which chooses partitions. If it returns an error, no unit
// was stopped.
func (p *pass) choose(ctx context.Context) (result, error) {
	pid1, err := p.conn.open(ctx)
	if err != nil {
		return result{}, err
	}
	clients, err := listClients(ctx, pid1, p.settings.Order.Clients)
	if err != nil {
		return result{}, err
	}
	stopped, err := restartedUnits(ctx, pid1, unitname.Reserve, nil)
	if err != nil {
		return result{}, err
	}
	if r, throttled, err := p.throttle(ctx, pid1); err != nil {
		return result{}, err
	} else if throttled && r.throttle > 0 {
		return result{retryReserve: r.failure, throttle: r.throttle}, nil
	}
	p.log.Info("choosing partitions: the reservations have changed")
	t := transaction{pass: p, pid1: pid1, restart: restart{unit: unitname.Reserve, clients: clients, stopped: stopped}}
	return t.do(ctx)
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
