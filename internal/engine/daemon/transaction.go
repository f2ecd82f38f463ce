package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// transaction is one restart of dcm-apply.service, dcm-change.service or dcm-reserve.service, with
// the units that systemd stops and starts again around it. The fields have the states of the units
// before the restart.
type transaction struct {
	pass *pass
	pid1 PID1
	restart
	report    runstate.Run         // of the run; empty if it wrote none
	cancelled map[string]cancelled // by unit, see [transaction.cancelledStarts]
}

// do executes the transaction. Before the restart the daemon saves which units are to be started if
// the run fails. After it, the units are compared with their states before. An error means that no
// unit was stopped.
func (t *transaction) do(ctx context.Context) (result, error) {
	triggers, err := t.pid1.Dependencies.Triggers(ctx, loaded(t.clients, t.stopped))
	if err != nil {
		return result{}, fmt.Errorf("cannot read which units start the clients: %w", err)
	}
	if err := t.pass.starts.judge(ctx, t.pid1.States); err != nil {
		return result{}, fmt.Errorf("cannot read how clients stopped after an earlier run: %w", err)
	}
	taken := t.pass.starts.pending.plus(t.stopped).plus(triggers)
	if err := t.pass.begin(intent{unit: t.unit, change: t.change, users: t.pass.users, progress: t.progress, pending: taken}); err != nil {
		return result{}, err
	}
	if err := t.pass.Withheld.Add(t.withheld); err != nil {
		return result{}, err
	}
	t.pass.starts.taken = taken
	t.pass.starts.pin(ctx, t.pid1.Pins)
	t.pass.conn.clearCounters(ctx, t.pid1.Jobs, ids(t.stopped))
	t.pass.log.restarting(t.unit, t.stopped)
	r := t.run(ctx)
	r.partial = t.unit == unitname.Change
	t.count(&r)
	t.verify(ctx, triggers, &r)
	r.failedStarts = t.failedStarts(ctx, r)
	if r.failure == nil && r.retryReserve == nil {
		if r.timedOut { // systemd has started none of those that require the unit
			t.pass.starts.pending = t.pass.starts.taken
		}
		for _, c := range t.cancelled {
			t.pass.starts.pending.record(c.Unit, c.reason)
		}
		t.pass.starts.taken = nil
	}
	return r, nil
}

// count adds the progress of a change that is made in rounds.
func (t *transaction) count(r *result) {
	r.round = r.failure == nil && t.isRound()
	if t.progress == nil || r.failure == nil && !r.round { // the profile is on all GPUs
		return
	}
	now := *t.progress
	if r.round {
		now.Done += len(t.change.GPUs)
	}
	r.progress = &now
}

// run restarts the unit.
func (t *transaction) run(ctx context.Context) result {
	ctx, cancel := t.pass.conn.limit(ctx, t.pass.Limits.Run)
	defer cancel()
	switch t.unit {
	case unitname.Reserve:
		return t.restartReserve(ctx)
	case unitname.Change:
		return t.apply(ctx, t.restartAffected)
	}
	return t.apply(ctx, t.restartAll)
}

// restartAll restarts dcm-apply.service, which restarts the clients. The units that create the instances of
// clients are restarted too: they are needed without interruption otherwise, and keep instances that the run
// may destroy.
func (t *transaction) restartAll(ctx context.Context) (systemd.Unit, error) {
	makers := t.makers()
	if len(makers) == 0 {
		return t.pid1.Jobs.Restart(ctx, t.unit)
	}
	return t.pid1.Jobs.RestartAround(ctx, systemd.Change{Run: t.unit, First: makers}, t.logMissed)
}

// makers returns the units that create the instances of the stopped units.
func (t *transaction) makers() []string {
	var out []string
	for _, u := range t.stopped {
		for _, r := range t.pass.settings.Order.Reserved {
			if r.Maker != "" && (r.Unit == u.ID || r.Unit == unitname.Template(u.ID)) {
				out = append(out, strings.ReplaceAll(r.Maker, "%n", u.ID))
			}
		}
	}
	return out
}

func (t *transaction) logMissed(missed error) {
	if missed != nil {
		t.pass.log.Error(missed.Error())
	}
}

// restartAffected restarts dcm-change.service and the affected units. It holds a lock until all
// jobs are queued, so that dcm-gate.service, which delays the run, does not end before. The lock is
// released at the latest when the daemon exits.
func (t *transaction) restartAffected(ctx context.Context) (systemd.Unit, error) {
	release, err := t.pass.HoldGate()
	if err != nil {
		return systemd.Unit{}, err
	}
	c := systemd.Change{Gate: unitname.Gate, Run: unitname.Change, Units: append(ids(t.stopped), t.makers()...)}
	return t.pid1.Jobs.RestartAround(ctx, c, func(missed error) {
		release()
		t.logMissed(missed)
	})
}

// loaded returns the names of units that have a unit file, each once.
func loaded(lists ...[]systemd.Unit) []string {
	var out []string
	seen := make(map[string]bool)
	for _, u := range slices.Concat(lists...) {
		if u.Load == "loaded" && !seen[u.ID] {
			seen[u.ID] = true
			out = append(out, u.ID)
		}
	}
	return out
}

// apply has PID 1 restart the unit that changes the GPUs, and returns how the run ended. The unit's
// state decides; the report gives the reason.
func (t *transaction) apply(ctx context.Context, restart func(context.Context) (systemd.Unit, error)) result {
	began := time.Now()
	unit, err := restart(ctx)
	if errors.Is(err, systemd.ErrCyclic) {
		return result{failure: describeCycle(ctx, t.pid1.Order, t.unit, t.clients)}
	}
	if err != nil {
		return transient(fmt.Errorf("cannot run %s: %w", t.unit, err))
	}
	run, err := t.pass.LastRun()
	if err != nil {
		t.pass.log.Error(err.Error())
	}
	if run == nil || unit.Invocation != "" && run.ID != unit.Invocation {
		run = &runstate.Run{}
	}
	t.report = *run
	t.pass.log.ended(t.unit, unit, time.Since(began))
	out := result{restart: runstate.Restart{Run: unit.Invocation, Asked: began}, otherProfile: t.pass.usable && t.isOther(run)}
	succeeded := unit.Active == "active" && unit.Result == "success"
	if succeeded && (run.Result.OK() || run.Result == runstate.Round && t.isRound() || run.ID == "" && t.pass.gpus.reached(ctx, t.pass.settings.Profile)) {
		return out
	}
	if out.timedOut = succeededLate(unit, run); out.timedOut {
		return out
	}
	out.failure, out.event = whyFailed(t.unit, unit, run), failureEvent(unit, run)
	out.holders, out.left, out.abandoned = run.Holders, run.Left(), abandonedIn(run)
	return out
}

// isOther reports whether the run applied another profile than this pass wants, because the run has
// read a newer edit.
func (t *transaction) isOther(run *runstate.Run) bool {
	if run.Profile == "" {
		return t.pass.settings.Selected && run.Result == runstate.NoProfile
	}
	return !t.pass.settings.Selected || run.Profile != t.pass.settings.Profile.Name
}

// restartReserve restarts dcm-reserve.service and classifies how it ended. Its exit status
// 69 means that no choice meets all reservations; after any other failure, a signal, a
// timeout or a full file system, it is run again.
func (t *transaction) restartReserve(ctx context.Context) result {
	run, err := t.pid1.Jobs.Restart(ctx, unitname.Reserve)
	switch {
	case err != nil:
		return again(runstate.Error{Text: "cannot choose partitions for the reservations: " + err.Error()})
	case run.Active != "failed":
		return result{}
	case run.Result == "exit-code" && !run.Failed.Signal && run.Failed.Status == exitcode.Permanent:
		return result{problem: &runstate.Error{Text: "not all reservations can be met", Hint: "reserve less, or select a profile with more partitions; see journalctl -u " + unitname.Reserve}}
	}
	return again(runstate.Error{
		Text: "the partitions of the reservations were not chosen: " + unitname.Reserve + " failed: " + whyEnded(run),
		Hint: "dcm retries; see journalctl -u " + unitname.Reserve,
	})
}

// verify waits until all units that the transaction has stopped have settled, and compares
// them with their states before. Of the units that trigger clients, which it does not stop, it
// reports those that have failed meanwhile. While the driver is unloaded no client can settle, and
// the next run is not delayed for them.
func (t *transaction) verify(ctx context.Context, triggers []systemd.Unit, run *result) {
	limit := t.pass.Limits.Clients
	if run.failure != nil && t.pass.GPUs.DriverUnloaded() {
		limit = min(limit, t.pass.Limits.Retry.First)
	}
	ctx, cancel := t.pass.conn.limit(ctx, limit)
	defer cancel()
	before := with(t.clients, t.stopped)
	own := len(before)
	before = with(before, triggers)
	after, err := t.pid1.States.Settle(ctx, names(before), settledAfter(before, run.failure != nil))
	if err != nil && run.failure == nil {
		t.pass.log.Error("cannot wait for the clients", "error", err)
	}
	now := make(map[string]systemd.Unit, len(after))
	for _, a := range after {
		now[a.Name] = a
	}
	run.clients = make([]runstate.Client, 0, own)
	for i, b := range before {
		if c := compare(b, now[b.Name]); i < own || !c.Back {
			t.pass.log.compared(c)
			run.clients = append(run.clients, c)
		}
	}
	run.restart.Settled = time.Now()
	if run.failure == nil && run.retryReserve == nil && !run.timedOut {
		if t.cancelled, err = t.cancelledStarts(ctx, before, now); err != nil {
			t.pass.log.Warn("cannot determine which start jobs have failed", "error", err)
		}
		if run.problem == nil {
			run.problem = notBack(slices.DeleteFunc(slices.Clone(run.clients), func(c runstate.Client) bool {
				_, found := t.cancelled[now[c.Unit].ID]
				return found
			}))
		}
	}
	t.pass.starts.taken.forget(after)
	if run.failure == nil {
		return
	}
	// Those that were down before the run were judged after an earlier one.
	stopped := slices.DeleteFunc(after, func(u systemd.Unit) bool { return !slices.Contains(ids(t.stopped), u.ID) })
	lying, err := endedUnits(ctx, t.pid1.States, stopped, rests)
	if err != nil {
		t.pass.log.Warn("cannot read how clients stopped", "error", err)
		return
	}
	t.pass.starts.taken.mark(lying, t.pass.starts.require)
}

// cancelled is a unit whose start job ended with "dependency".
type cancelled struct {
	systemd.Unit
	reason runstate.PendingReason // of its pending start: another unit starts first, or has started
}

// cancelledStarts returns the units whose start job ended with "dependency" after a run that succeeded.
func (t *transaction) cancelledStarts(ctx context.Context, before []systemd.Unit, now map[string]systemd.Unit) (map[string]cancelled, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.pass.Limits.Clients)
	defer cancel()
	var same []systemd.Unit
	for _, b := range before {
		if n := now[b.Name]; b.Up() && !n.Up() && n.Settled() && n.Invocation == b.Invocation && n.Invocation != "" {
			same = append(same, n)
		}
	}
	left, err := downUnits(ctx, t.pid1.States, same)
	if err != nil {
		return nil, err
	}
	starts, waits, err := cancelledStarts(ctx, t.pid1.States, left)
	out := make(map[string]cancelled)
	for _, u := range starts {
		out[u.ID] = cancelled{u, runstate.DependencyFailed}
	}
	for _, u := range same {
		if waits[u.ID] != "" {
			out[u.ID] = cancelled{u, runstate.StoppedByRun}
		}
	}
	return out, err
}

// settledAfter returns whether the state of a unit is final after a run. A service that waited for its
// automatic restart before the run is as it was then. After a failed run, no service that does so
// settles before the next run.
func settledAfter(before []systemd.Unit, failed bool) func(systemd.Unit) bool {
	return func(now systemd.Unit) bool {
		return now.Settled() || now.Restarting() && (failed || slices.ContainsFunc(before, func(b systemd.Unit) bool { return b.ID == now.ID && b.Restarting() }))
	}
}
