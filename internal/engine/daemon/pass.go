package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// pass is one look at configuration and GPUs, and at most one restart.
type pass struct {
	*Daemon
	Log          *slog.Logger // with what the pass is about
	settings     Settings
	usable       bool // there are settings
	last         verdict
	failedBefore bool // so did the last pass
	asked        runstate.Asked
	hidden       *runstate.Use                               // see [pass.hiding]
	applying     func(unit string, owed pendingStarts) error // called before a restart, with what is owed if it fails
	owed         pendingStarts                               // see [pass.repay]
	owes         pendingStarts                               // the same, once a run was begun, until it succeeds
	minded       bool                                        // PID 1 was asked to remember units
	word         bool                                        // an administrator has requested the pass
	ordered      *map[string]string                          // see [pass.order]

	stirred bool   // nobody asked for it: devices told of something
	seen    string // the GPUs as they were; of a stirred pass
	looked  string // the GPUs as this pass saw them, before a run
	hold    bool   // another repair follows too soon; of a stirred pass
	units   Units  // nil until PID 1 is needed

	clients []systemd.Unit // as they were when a restart was considered
	stuck   []blocker      // of units that it would not keep off the GPUs
}

// result is how a pass ended.
type result struct {
	failure *runstate.Error   // the profile is not on the GPUs
	later   *runstate.Error   // it is, but dcm-reserve.service is to be run again
	problem *runstate.Error   // it is, but something else is not as it should be
	clients []runstate.Client // after a restart
	holders []runstate.Holder // who is in the way
	restart runstate.Restart  // the one that was made, if one was
	end     event.ID          // how its run ended, if it failed
	other   bool              // the run was for another selection
	late    bool              // see [finished]
	advice  []string          // warnings beside those of the configuration
	owed    pendingStarts     // units to be started once the profile is on the GPUs
	repaid  []runstate.Client // what was owed before, as it is now

	seen      string          // the GPUs at the end
	stirred   bool            // of a stirred pass
	unchanged bool            // a stirred pass has found nothing new, and the rest is empty
	drift     *runstate.Error // the GPUs are to be left as somebody made them
	held      bool            // the failure is a repair that was put off
	spared    time.Duration   // for this long no run is to be made
}

// transient is a failure of the way to PID 1: the next try may find it mended.
func transient(err error) result {
	return result{failure: &runstate.Error{Text: err.Error(), Transient: true}}
}

func (p *pass) do(ctx context.Context) result {
	defer p.hangUp()
	if p.Looked != nil {
		defer p.Looked()
	}
	if p.stirred {
		p.looked = p.sum(ctx)
		if p.unchanged(p.looked) {
			return result{unchanged: true}
		}
	}
	o := p.decide(ctx)
	p.startPending(ctx, &o)
	p.forget(ctx, o)
	p.clearFailed(ctx, o)
	o.stirred, o.seen = p.stirred, p.remember(ctx, o)
	return o
}

// decide reads the difference between the GPUs and the settings, and acts on it.
func (p *pass) decide(ctx context.Context) result {
	if p.usable {
		if err := p.order(ctx); err != nil {
			return transient(err)
		}
	}
	if err := p.await(ctx); err != nil {
		return transient(err)
	}
	if p.GPUs.Left() {
		return p.bringBack(ctx)
	}
	if !p.settings.Selected {
		return p.reserve(ctx)
	}
	limit, cancel := context.WithTimeout(ctx, orDefault(p.settings.Timeout, defaultDevices))
	defer cancel()
	look, err := p.GPUs.Steps(limit, p.settings.Profile)
	p.looked = look.Fingerprint
	if err != nil {
		e := p.GPUs.Explain(err)
		if p.stirred && p.settings.LeaveDrift {
			return result{drift: &e}
		}
		return result{failure: &e}
	}
	if look.Diff == 0 && p.unpublished(look) {
		p.Log.Warn("the last run ended before it published the partitions: making another one")
		return p.change(ctx, nil)
	}
	if look.Diff == 0 {
		return p.reserve(ctx)
	}
	if p.stirred {
		if o, repair := p.found(look.Diff); !repair {
			return o
		}
	}
	return p.change(ctx, look.Blocking)
}

// unpublished reports whether a run has changed the GPUs and was killed before it published
// their partitions. Units with reservations have the old ones then.
func (p *pass) unpublished(look Observation) bool {
	return !p.stirred && p.last.tries > 0 && look.Published != nil && !look.Published()
}

// clearFailed clears the failures of earlier runs when all is as it should be: they would
// keep the host "degraded" needlessly.
func (p *pass) clearFailed(ctx context.Context, o result) {
	if o.failure != nil || o.later != nil || o.drift != nil || !p.usable {
		return
	}
	last, err := p.LastRun()
	told := err == nil && last != nil && !last.Result.OK()
	// A run that is killed at its very end, or in a hook, has told that it went well.
	if !told && !p.failedBefore && !p.last.fresh && p.last.tries == 0 && p.units == nil {
		return
	}
	own := []string{unitname.Apply}
	if p.Unmet == nil || !p.Unmet() {
		own = append(own, unitname.Reserve)
	}
	u, err := p.connect(ctx)
	var now []systemd.Unit
	if err == nil {
		now, err = u.Glance(ctx, own)
	}
	for _, unit := range now {
		if unit.Active == "failed" {
			p.Log.Info("clearing the failure of "+unit.ID+", as all is in order now", "unit", unit.ID)
			err = errors.Join(err, u.ResetFailed(ctx, unit.ID))
		}
	}
	if err != nil {
		p.Log.Warn("cannot clear the failures of dcm's units", "error", err)
	}
}

// order has systemd load drop-ins that differ from those of the settings. If the generator
// fails, it requests one reload for the same drop-ins: repeating that is up to package
// dropins, with its back-off. An administrator's request is a reason for another one.
func (p *pass) order(ctx context.Context) error {
	differ, err := p.Stale(p.settings)
	if err != nil {
		return err
	}
	if len(differ) == 0 {
		*p.ordered = nil
		return nil
	}
	want := p.settings.Order.Dropins()
	if *p.ordered != nil && maps.Equal(*p.ordered, want) && !p.word {
		return nil
	}
	u, err := p.connect(ctx)
	if err != nil {
		return err
	}
	p.Log.Info("reloading systemd: drop-ins differ from the configuration: "+unitname.Few(differ), "units", differ)
	if err := u.Reload(ctx); err != nil {
		return fmt.Errorf("cannot reload systemd for the drop-ins of %s: %w", unitname.Few(differ), err)
	}
	*p.ordered, p.word = nil, false
	failed, err := p.Unwritten()
	if err == nil && len(failed) > 0 { // else the files were edited once more, and that is what was written
		*p.ordered = want
	}
	return err
}

// await waits for a run that somebody else began: asking for a restart in its
// middle would end it half-way and do it again.
func (p *pass) await(ctx context.Context) error {
	busy, err := p.Busy()
	if err != nil || !busy {
		return err
	}
	u, err := p.connect(ctx)
	if err != nil {
		return err
	}
	return p.settle(ctx, u)
}

func (p *pass) connect(ctx context.Context) (Units, error) {
	if p.units != nil {
		return p.units, nil
	}
	u, err := p.Dial(ctx)
	if err != nil {
		return nil, err // u may be a nil of some type, which is not nothing
	}
	p.units = u
	return u, nil
}

func (p *pass) hangUp() {
	if p.units == nil {
		return
	}
	if err := p.units.Close(); err != nil {
		p.Log.Warn("cannot close the connection to systemd", "error", err)
	}
	p.units = nil
}

// change makes the one restart transaction, unless it would be in vain.
func (p *pass) change(ctx context.Context, blocking []runstate.Holder) result {
	u, err := p.connect(ctx)
	if err != nil {
		return transient(err)
	}
	if moving, err := p.moving(ctx, u); err != nil {
		return transient(err)
	} else if moving {
		return p.decide(ctx)
	}
	before, err := u.Units(ctx, p.settings.Order.Clients)
	if err != nil {
		return transient(fmt.Errorf("cannot read the clients' states: %w", err))
	}
	p.clients = before
	bounced, err := systemd.RestartedUnits(ctx, u, unitname.Apply, before)
	if err != nil {
		return transient(fmt.Errorf("cannot tell which units a restart would stop: %w", err))
	}
	foreign, err := p.remainingHolders(ctx, u, blocking, bounced)
	if err != nil {
		return transient(fmt.Errorf("cannot tell whether a restart would free the GPUs: %w", err))
	}
	if len(foreign) > 0 {
		return p.unmanagedHolders(ctx, foreign)
	}
	if o, hidden := p.hiding(ctx); hidden {
		return o
	}
	if o, spared, err := p.restartThrottle(ctx, u); err != nil {
		return transient(err)
	} else if spared {
		return o
	}
	run, err := p.transact(ctx, u, transaction{unit: unitname.Apply, clients: before, bounced: bounced, run: p.restart})
	if err != nil {
		return transient(err)
	}
	return run
}

// clearCounters is for the start limits: each restart counts against one, and a unit
// that reached it would be left failed by systemd.
func (p *pass) clearCounters(ctx context.Context, u Units, bounced []systemd.Unit) {
	for _, b := range bounced {
		if err := u.ResetFailed(ctx, b.ID); err != nil {
			p.Log.Warn("cannot clear the start counter", "unit", b.ID, "error", err)
		}
	}
}

// moving waits for a run that has begun but not yet taken its lock, or has just
// released it. What was planned before is then out of date.
func (p *pass) moving(ctx context.Context, u Units) (bool, error) {
	now, err := u.Units(ctx, []string{unitname.Apply})
	if err != nil {
		return false, fmt.Errorf("cannot read the state of %s: %w", unitname.Apply, err)
	}
	still := []string{"active", "inactive", "failed"}
	if len(now) == 0 || slices.Contains(still, now[0].Active) && !now[0].Job {
		return false, nil
	}
	return true, p.settle(ctx, u)
}

func (p *pass) settle(ctx context.Context, u Units) error {
	ctx, cancel := context.WithTimeout(ctx, p.Limits.Run)
	defer cancel()
	p.extend(p.Limits.Run)
	if _, err := u.Settle(ctx, []string{unitname.Apply}); err != nil {
		return fmt.Errorf("a run is under way and does not end: %w", err)
	}
	return nil
}

// extend keeps systemd from losing patience with a start or a reload.
func (p *pass) extend(d time.Duration) {
	if err := p.Notify.ExtendTimeout(d); err != nil {
		p.Log.Warn(err.Error())
	}
}

func ids(units []systemd.Unit) []string {
	out := make([]string, len(units))
	for i, u := range units {
		out[i] = u.ID
	}
	return out
}

// remaining returns the holders that a stop of the units would not free.
func remaining(holders []runstate.Holder, units []systemd.Unit) []runstate.Holder {
	stopped := ids(units)
	var out []runstate.Holder
	for _, h := range holders {
		if !slices.Contains(stopped, h.Unit) {
			out = append(out, h)
		}
	}
	return out
}

// restart asks PID 1 for the run and tells how it ended. The unit's state is the
// truth; the report tells why.
func (p *pass) restart(ctx context.Context, u Units) result {
	limit, cancel := context.WithTimeout(ctx, p.Limits.Run)
	defer cancel()
	p.extend(p.Limits.Run)
	began := time.Now()
	unit, err := u.Restart(limit, unitname.Apply)
	asked := runstate.Restart{Run: unit.Invocation, Asked: began}
	if errors.Is(err, systemd.ErrCyclic) {
		return result{failure: p.cycle(ctx, u)}
	}
	if err != nil {
		return transient(fmt.Errorf("cannot run %s: %w", unitname.Apply, err))
	}
	run, err := p.LastRun()
	if err != nil {
		p.Log.Error(err.Error())
	}
	if run == nil || unit.Invocation != "" && run.ID != unit.Invocation {
		run = &runstate.Run{}
	}
	p.Log = p.Log.With("run", unit.Invocation)
	took := time.Since(began).Round(time.Millisecond)
	p.Log.Info(fmt.Sprintf("%s has ended after %s: %s", unitname.Apply, took, unit.Result), "unit", unitname.Apply, "result", unit.Result, "took", took)
	out := result{restart: asked, other: p.usable && p.other(run)}
	if succeeded := unit.Active == "active" && unit.Result == "success"; succeeded && (run.Result.OK() || run.ID == "" && p.reached(ctx)) {
		return out
	}
	if out.late = finished(unit, run); out.late {
		return out
	}
	out.failure, out.holders, out.end = whyFailed(unit, run), run.Holders, ending(unit, run)
	return out
}

// finished reports whether a run that was over its TimeoutStartSec= went to its end all the
// same, when systemd told it to stop. The unit has failed then, and the GPUs are as wanted.
func finished(u systemd.Unit, run *runstate.Run) bool {
	return u.Result == "timeout" && u.Failed.Path == "" && run.ID != "" && run.ID == u.Invocation && run.Result.OK()
}

// other tells that a run was for another selection than this pass is for: it has read
// a newer edit.
func (p *pass) other(run *runstate.Run) bool {
	if run.Profile == "" {
		return p.settings.Selected && run.Result == runstate.NoProfile
	}
	return !p.settings.Selected || run.Profile != p.settings.Profile.Name
}

// reached reports whether the GPUs are as selected, for a run that could not write
// its report, on a full file system say.
func (p *pass) reached(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, orDefault(p.settings.Timeout, defaultDevices))
	defer cancel()
	look, err := p.GPUs.Steps(ctx, p.settings.Profile)
	return err == nil && look.Diff == 0
}

// whyFailed prefers what the run said itself to what systemd saw of it.
func whyFailed(u systemd.Unit, run *runstate.Run) *runstate.Error {
	if run.Error != nil {
		return run.Error
	}
	text := fmt.Sprintf("%s ended with result %q before it could say why", unitname.Apply, u.Result)
	if u.Failed.Path != "" {
		text = fmt.Sprintf("%s failed: %s", unitname.Apply, u.Failed)
	}
	if u.Result == "timeout" {
		text = unitname.Apply + " took longer than its TimeoutStartSec= and was ended"
		if u.Failed.Path != "" {
			text += fmt.Sprintf(": %s", u.Failed)
		}
	}
	var open []string
	for _, s := range run.Steps {
		if !s.Started.IsZero() && s.Finished.IsZero() {
			open = append(open, s.Step.String())
		}
	}
	if len(open) > 0 {
		text += "; under way was: " + strings.Join(open, ", ")
	}
	return &runstate.Error{Text: text, Cure: "journalctl -u " + unitname.Apply + " may tell more", Transient: true}
}
