package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// pass is one comparison of the GPUs with the settings, and at most one restart.
type pass struct {
	*Daemon
	log      *passLog
	settings Settings
	usable   bool // there are settings
	asked    runstate.Asked
	forced   bool // an administrator has requested the pass
	failures failures
	unseen   *runstate.Use // see [pass.unseenHolder]
	reloads  *reloads

	byDevice bool   // caused by a device event
	before   string // the fingerprint of the GPUs to compare with; of a pass caused by a device event
	tooSoon  bool   // a repair has to wait; of a pass caused by a device event

	begin  func(unit string, ifFailed pendingStarts) error // called before a restart, with the units to start if it fails
	pid1   *manager
	gpus   *observer
	starts *starter
}

// result is how a pass ended.
type result struct {
	failure      *runstate.Error // the profile is not on the GPUs
	retryReserve *runstate.Error // it is, but dcm-reserve.service has to run again
	problem      *runstate.Error // it is, but something else is wrong
	drift        *runstate.Error // the GPUs are left as another program changed them

	clients []runstate.Client // after a restart
	started []runstate.Client // the clients that were pending, after their start
	pending pendingStarts     // units to be started once the profile is on the GPUs
	holders []runstate.Holder // that block a run
	hints   []string          // warnings in addition to those of the configuration

	restart      runstate.Restart // the restart that was made, if any
	event        event.ID         // how its run ended, if it failed
	otherProfile bool             // its run was for another selection
	timedOut     bool             // its run succeeded after its timeout, see [succeededLate]

	fingerprint string        // of the GPUs at the end
	byDevice    bool          // of a pass caused by a device event
	unchanged   bool          // such a pass has found no change; all else is empty
	delayed     bool          // the failure is a repair that has to wait
	throttle    time.Duration // no run is made for this time
}

// transient is a failure to reach PID 1, which the next attempt may not meet.
func transient(err error) result {
	return result{failure: &runstate.Error{Text: err.Error(), Transient: true}}
}

func (p *pass) do(ctx context.Context) result {
	defer p.pid1.close()
	if p.Rearm != nil {
		defer p.Rearm()
	}
	if p.byDevice && p.unchanged(ctx) {
		return result{unchanged: true}
	}
	r := p.decide(ctx)
	p.starts.finish(ctx, &r)
	p.starts.unpin(ctx, r)
	p.clearFailed(ctx, r)
	r.byDevice, r.fingerprint = p.byDevice, p.gpus.after(ctx, r)
	return r
}

// unchanged reports whether the GPUs are as the last pass left them. During a run of another
// program this is unknown.
func (p *pass) unchanged(ctx context.Context) bool {
	now := p.gpus.fingerprint(ctx)
	p.gpus.seen = now
	busy, err := p.Busy()
	return !busy && err == nil && now == p.before
}

// decide compares the GPUs with the settings, and restarts what has to be restarted.
func (p *pass) decide(ctx context.Context) result {
	if p.usable {
		if err := p.reloadDropins(ctx); err != nil {
			return transient(err)
		}
	}
	if err := p.pid1.awaitRun(ctx, p.Busy); err != nil {
		return transient(err)
	}
	if p.GPUs.DriverUnloaded() {
		return p.loadDriver(ctx)
	}
	if !p.settings.Selected {
		return p.reserve(ctx)
	}
	now, err := p.gpus.observe(ctx, p.settings.Profile)
	if err != nil {
		e := p.Explain(err)
		if p.byDevice && p.settings.LeaveDrift {
			return result{drift: &e}
		}
		return result{failure: &e}
	}
	switch {
	case now.Diff == 0 && p.unpublished(now):
		p.log.Warn("the last run ended before it published the partitions: making another one")
		return p.restartClients(ctx, nil)
	case now.Diff == 0:
		return p.reserve(ctx)
	case p.byDevice:
		if r, repair := p.driftFound(now.Diff); !repair {
			return r
		}
	}
	return p.restartClients(ctx, now.Blocking)
}

// restartClients restarts dcm-apply.service, and with it the clients, unless that would not
// help: a holder would stay, or the last attempts failed and the next one is not due.
func (p *pass) restartClients(ctx context.Context, blocking []runstate.Holder) result {
	u, err := p.pid1.connect(ctx)
	if err != nil {
		return transient(err)
	}
	if waited, err := p.pid1.awaitStartedRun(ctx, u); err != nil {
		return transient(err)
	} else if waited {
		return p.decide(ctx)
	}
	clients, err := u.List(ctx, p.settings.Order.Clients, systemd.All)
	if err != nil {
		return transient(fmt.Errorf("cannot read the clients' states: %w", err))
	}
	stopped, err := systemd.RestartedUnits(ctx, u, u, unitname.Apply, clients)
	if err != nil {
		return transient(fmt.Errorf("cannot tell which units a restart would stop: %w", err))
	}
	b := blockers{units: u, clients: clients, settings: p.settings, fit: p.Fit}
	remaining, err := b.remaining(ctx, blocking, stopped)
	if err != nil {
		return transient(fmt.Errorf("cannot tell whether a restart would free the GPUs: %w", err))
	}
	if len(remaining) > 0 {
		return p.include(ctx, &b, remaining)
	}
	if r, found := p.unseenHolder(ctx); found {
		return r
	}
	if r, throttled, err := p.throttle(ctx, u); err != nil {
		return transient(err)
	} else if throttled {
		return r
	}
	t := transaction{pass: p, units: u, unit: unitname.Apply, clients: clients, stopped: stopped}
	r, err := t.do(ctx, t.restartApply)
	if err != nil {
		return transient(err)
	}
	return r
}

// include makes the services among the holders clients, if the settings allow that and no
// other holder is left. Otherwise it refuses: a restart would not free the GPUs.
func (p *pass) include(ctx context.Context, b *blockers, holders []runstate.Holder) result {
	found := b.includable(holders)
	if len(found) == 0 {
		return b.refuse(holders)
	}
	p.log.included(found)
	if err := p.Include(found); err != nil {
		return transient(err)
	}
	// The drop-ins of these settings have to name them too: otherwise systemd is not reloaded,
	// and the restart does not stop them.
	p.settings.Order.Clients = append(slices.Clone(p.settings.Order.Clients), found...)
	return p.do(ctx)
}

// loadDriver makes a run for a driver that an earlier run has left unloaded. Clients that systemd
// started after that run, and that ended without the driver, are pending too, whatever requested
// that run.
func (p *pass) loadDriver(ctx context.Context) result {
	u, err := p.pid1.connect(ctx)
	if err != nil {
		return transient(err)
	}
	killed, err := u.End(ctx, unitname.Apply)
	if err != nil {
		return transient(err)
	}
	// If the configuration cannot be used, PID 1 still knows the clients.
	clients, err := u.List(ctx, slices.Concat(p.settings.Order.Clients, killed.Parts), systemd.All)
	if err != nil {
		return transient(fmt.Errorf("cannot read the clients' states: %w", err))
	}
	lying, err := downUnits(ctx, u, clients)
	if err != nil {
		return transient(err)
	}
	for _, l := range lying {
		_, known := p.starts.pending[l.ID]
		if !known && l.end.Tried > killed.Began && (l.end.Skipped || l.end.ExitedOnItsOwn(l.Unit)) {
			p.starts.pending[l.ID] = "of another run"
		}
	}
	p.log.Warn("a run has left the driver unloaded: making another to load it")
	return p.restartClients(ctx, nil)
}

// driftFound is the result if other programs have changed the GPUs, that many steps away from
// the profile. If repair is true the steps are to be made.
func (p *pass) driftFound(steps int) (r result, repair bool) {
	text := fmt.Sprintf("the GPUs were changed by somebody else: they are %d steps away from profile %s", steps, p.settings.Profile.Name)
	switch {
	case p.settings.LeaveDrift:
		return result{drift: &runstate.Error{Text: text, Hint: driftHint}}, false
	case p.tooSoon:
		text += ", again, and soon after they were repaired"
		return result{delayed: true, failure: &runstate.Error{Text: text, Hint: "find out what else sets modes on this host", Transient: true}}, false
	}
	p.log.Warn(text, "error", text, event.Drifted.Attr())
	return result{}, true
}
