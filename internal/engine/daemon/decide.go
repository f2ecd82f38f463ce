package daemon

import (
	"context"
	"errors"
	"fmt"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/text"
)

// do executes the pass and returns its result.
func (p *pass) do(ctx context.Context) result {
	defer p.conn.close()
	if p.Rearm != nil {
		defer p.Rearm()
	}
	if p.startsOnly != nil {
		r := result{startsOnly: true, failure: p.startsOnly}
		p.starts.finish(ctx, &r)
		return r
	}
	if p.byDevice && p.unchanged(ctx) {
		return result{unchanged: true}
	}
	r, again := p.decide(ctx)
	for again {
		r, again = p.decide(ctx)
	}
	p.starts.finish(ctx, &r)
	p.starts.unpin(ctx, r)
	p.clearFailed(ctx, r)
	r.failedStarts = append(stillFailed(ctx, p.conn, p.log.Logger, p.failedStarts), r.failedStarts...)
	r.fingerprint, r.failure = p.gpus.after(ctx, r)
	r.byDevice, r.gpus = p.byDevice, p.gpus.present
	return r
}

// unchanged reports whether the GPUs are as the last pass left them. During a run of another
// program this is unknown.
func (p *pass) unchanged(ctx context.Context) bool {
	now := p.gpus.inventory(ctx).Fingerprint
	p.gpus.seen = now
	busy, err := p.Busy()
	return !busy && err == nil && now == p.before
}

// decide compares the GPUs with the settings, and restarts what has to be restarted. If again is
// true, nothing was restarted, and the observed state is out of date: the caller calls decide
// again.
func (p *pass) decide(ctx context.Context) (r result, again bool) {
	if p.usable {
		reloaded, err := p.dropins.load(ctx, p.conn, p.settings, p.forced, p.log.Logger)
		if err != nil {
			return transient(err), false
		}
		p.forced = p.forced && !reloaded
	}
	if err := p.conn.awaitRun(ctx, p.Busy); err != nil {
		return transient(err), false
	}
	if p.GPUs.DriverUnloaded() {
		return p.loadDriver(ctx)
	}
	if !p.settings.Selected {
		if err := p.Withheld.Clear(); p.usable && err != nil {
			return transient(err), false
		}
		return p.reserve(ctx), false
	}
	now, err := p.gpus.observe(ctx, p.settings.Profile)
	p.users = now.Users
	if err != nil {
		e := p.Explain(err)
		if p.byDevice && p.settings.LeaveDrift {
			return result{drift: &e}, false
		}
		return result{failure: &e}, false
	}
	switch {
	case p.unpublished(now) && (now.Diff == 0 || p.failures.change != nil && !p.limits().none()):
		withheld, err := p.Withheld.Read()
		if err != nil {
			return transient(err), false
		}
		p.log.Warn("the last run ended before it published the partitions: starting another run")
		return p.restartClients(ctx, p.failures.republish(now.Scope, withheld), nil)
	}
	if err := p.release(ctx, now); err != nil {
		return transient(err), false
	}
	switch {
	case now.Diff == 0:
		p.activateRun(ctx)
		return p.reserve(ctx), false
	case p.byDevice:
		if r, repair := p.driftFound(now.Diff); !repair {
			return r, false
		}
	}
	if waiting := p.abandoned.waiting(now); waiting != nil {
		return p.changeWaiting(ctx, *waiting)
	}
	r, again = p.restartClients(ctx, now.Scope, now.Blocking)
	if r.clients == nil && len(r.holders) > 0 {
		r.left = now.GPUs
	}
	return r, again
}

// unpublished reports whether a run has changed the GPUs and was killed before it published
// their partitions. Units with reservations have the old ones then.
func (p *pass) unpublished(now Observation) bool {
	return !p.byDevice && p.failures.attempts > 0 && now.Published != nil && !now.Published()
}

const driftHint = `dcm plan shows the steps and dcm apply makes them; with drift = "repair" in [daemon] dcm does so by itself`

// driftFound returns the result if a device event has caused the pass. steps is the number of
// steps back to the profile. If repair is true, the pass executes them.
func (p *pass) driftFound(steps int) (r result, repair bool) {
	p.asked.Why = p.gpus.cause()
	found := fmt.Sprintf("%s; the GPUs do not match profile %s (found %s to do, want none)", p.asked.Why, p.settings.Profile.Name, text.Count(steps, "step"))
	switch {
	case p.settings.LeaveDrift:
		return result{drift: &runstate.Error{Text: found, Hint: driftHint}}, false
	case p.tooSoon:
		found += " again, soon after a repair"
		return result{delayed: true, failure: &runstate.Error{Text: found, Hint: "find the other program that sets modes on this host", Transient: true}}, false
	}
	p.log.Warn(found, "error", found, event.Drifted.Attr())
	return result{}, true
}

// clearFailed resets the failed units of earlier runs if the GPUs match the profile. Otherwise
// systemd would report the host as "degraded" needlessly.
func (p *pass) clearFailed(ctx context.Context, r result) {
	if r.failure != nil || r.retryReserve != nil || r.drift != nil || r.incomplete() || !p.usable || !p.mayHaveFailed() {
		return
	}
	own := unitname.Runs()
	if p.Unmet == nil || !p.Unmet() {
		own = append(own, unitname.Reserve)
	}
	pid1, err := p.conn.open(ctx)
	var now []systemd.Unit
	if err == nil {
		now, err = pid1.States.List(ctx, own, systemd.States)
	}
	for _, unit := range now {
		if unit.Active == "failed" {
			p.log.Info("clearing the failure of "+unit.ID+", since the GPUs match the profile now", "unit", unit.ID)
			err = errors.Join(err, pid1.Jobs.ResetFailed(ctx, unit.ID))
		}
	}
	if err != nil {
		p.log.Warn("cannot clear the failures of dcm's units", "error", err)
	}
}

// mayHaveFailed reports whether a unit of an earlier run may have failed.
func (p *pass) mayHaveFailed() bool {
	last, err := p.LastRun()
	if err == nil && last != nil && !last.Result.OK() {
		return true
	}
	// A run that is killed at its very end, or in a hook, has reported success.
	return p.failures.lastPass || p.failures.fresh || p.failures.attempts > 0 || p.conn.pid1 != nil
}
