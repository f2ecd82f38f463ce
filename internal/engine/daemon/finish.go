package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
)

// finish handles the end of a pass.
func (l *loop) finish(ctx context.Context, r result) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.unchanged {
		l.next(ctx)
		return nil
	}
	if r.startsOnly {
		r.pending.into(&l.state.State)
		l.state.Clients = updated(l.state.Clients, r.started)
		l.waker.onSettled(ctx, r.busy)
		l.next(ctx)
		return nil
	}
	l.waker.cancel()
	l.drift.fingerprint = r.fingerprint
	if r.gpus != nil {
		l.drift.history = l.drift.history.with(r.gpus)
	}
	record(&l.state.State, r)
	if r.failure == nil || r.clients != nil {
		l.abandoned = r.abandoned
	}
	l.failedStarts = slices.Compact(slices.Sorted(slices.Values(r.failedStarts)))
	l.hints = r.hints
	for _, unit := range l.failedStarts {
		l.hints = append(l.hints, hintOf(unit))
	}
	l.state.Warnings = slices.Concat(l.settings.Warnings, l.hints)
	if r.otherProfile {
		l.adoptNewerEdit(ctx)
	}
	switch {
	case r.drift != nil:
		l.log.Warn(r.drift.Text, "error", r.drift.Text, "hint", r.drift.Hint, event.Drifted.Attr())
		l.state.enter(runstate.Drifted, r.drift)
	case r.failure == nil && r.incomplete():
		l.rolling(r)
	case r.failure == nil:
		l.succeeded(r)
		if r.retryReserve != nil {
			l.retry(ctx, r, r.retryReserve)
			break
		}
		l.waker.onExit(ctx, r.holders) // processes whose end frees partitions for reservations
		l.waker.onSettled(ctx, r.busy)
	case !l.ready.reached && outdated(l.due, l.Load, l.settings):
		// The configuration has changed since this pass began.
	default:
		if err := l.failed(ctx, r); err != nil {
			return err
		}
	}
	l.next(ctx)
	return nil
}

// adoptNewerEdit reads the edit that a run has read before the daemon, so that the result is
// reported with its own profile.
func (l *loop) adoptNewerEdit(ctx context.Context) {
	before := l.settings
	_ = l.configure(ctx) // an error was reported
	l.state.Wish = l.settings.hash()
	if before.same(l.settings) { // the edit that the run has read was undone
		l.due = lookAgain
	}
}

// record writes the result of a pass into the state.
func record(s *runstate.State, r result) {
	switch {
	case r.failure == nil:
		s.Unseen = nil
	case r.clients != nil:
		s.Unseen = r.failure.Unseen
	}
	s.Holders, s.Left, s.Progress = r.holders, r.left, r.progress
	r.pending.into(s)
	s.Clients = clientsAfter(s.Clients, r)
	if r.restart.Run != "" {
		s.Restart = r.restart
	}
}

// outdated reports whether the configuration has changed since the pass that has ended.
func outdated(d due, load func() (Settings, error), s Settings) bool {
	if d == compareDue {
		now, err := load()
		return err == nil && !now.same(s)
	}
	return d == lookAgain
}

// next makes the pass that was requested during the last one.
func (l *loop) next(ctx context.Context) {
	due := l.due
	l.due = nothingDue
	if due == lookAgain {
		l.look(ctx, runstate.Asked{Why: "a change during the last check"})
		return
	}
	if due == compareDue && l.reread(ctx, true) {
		return
	}
	if l.drift.event {
		l.onDeviceEvent(ctx)
	}
	l.answer()
}

// rolling waits for the next round. Its round is no failure, so that the next one is not a retry.
func (l *loop) rolling(r result) {
	wait := r.pause
	if r.round {
		l.attempts, l.report.failure, l.state.Tries = make(attempts), "", 0
		l.drift.countRepair(r)
		wait = l.settings.SettleTime
	}
	l.report.rolling(l.state.Profile, r)
	l.state.Retry = l.waker.after(wait)
	l.state.enter(runstate.Rolling, r.problem)
	l.ready.reach()
}

func (l *loop) succeeded(r result) {
	if r.retryReserve == nil {
		l.attempts, l.report.failure, l.state.Tries = make(attempts), "", 0
	}
	l.drift.countRepair(r)
	phase := runstate.InSync
	switch {
	case !l.usable:
		phase, r.problem = runstate.Stuck, &runstate.Error{Text: l.state.Config}
	case !l.settings.Selected:
		phase = runstate.Idle
	default:
		warn(l.log, l.Host.Reached(l.settings.Profile))
	}
	if e := l.state.Error; r.byDevice && r.clients == nil && l.state.Phase == runstate.InSync && (e == nil || !e.Transient) {
		r.problem = l.state.Error // no event could have resolved the failure
	}
	if r.retryReserve != nil {
		r.problem = r.retryReserve
	}
	l.state.enter(phase, r.problem)
	if l.usable {
		l.report.success(l.state.State, r)
	}
	l.ready.reach()
}

// failed decides what follows a failed pass. Before READY=1, a daemon that an administrator has
// started ends with the reason.
func (l *loop) failed(ctx context.Context, r result) error {
	r.failure = withWithdrawal(r.failure, l.settings)
	reported := l.report.failure // by this daemon, or by the one before it
	if reported == "" && !l.ready.reached && l.previous.Error != nil && l.origin.bySystemd(ctx) {
		reported = l.previous.Error.Text
	}
	l.report.failed(l.state.Profile, r, reported)
	phase := runstate.Stuck
	switch {
	case reboot(ctx, l.Host, l.settings, l.log, &r):
		phase = runstate.Rebooting
	case r.failure.Transient:
		phase = runstate.Waiting
	}
	if !l.ready.reached && !l.origin.bySystemd(ctx) {
		l.state.enter(phase, r.failure)
		l.state.announce()
		return &StartError{Reason: *r.failure}
	}
	l.ready.reach()
	switch {
	case phase == runstate.Waiting:
		l.retry(ctx, r, r.failure)
	case phase == runstate.Stuck && len(r.left) > 0: // the GPUs that wait for holders have not failed
		l.waker.onExit(ctx, r.holders)
	}
	l.waker.onSettled(ctx, r.busy)
	l.state.enter(phase, r.failure)
	return nil
}

// retry makes the next attempt after a back-off, or when a holder has ended.
func (l *loop) retry(ctx context.Context, r result, failure *runstate.Error) {
	cause := causeOf(r)
	if r.delayed {
		l.drift.delayed = true
		l.attempts[cause] = max(l.attempts[cause], l.drift.repairs-1)
	}
	l.attempts[cause]++
	wait := l.Limits.Retry.After(l.attempts[cause])
	if r.throttle > 0 {
		wait = r.throttle
	}
	if failure.Unseen != nil {
		l.state.Retry = time.Time{}
		l.waker.onUseBelow(ctx, wait, *failure.Unseen)
		return
	}
	l.state.Retry = l.waker.after(wait)
	l.waker.onExit(ctx, r.holders)
	l.waker.onUnits(ctx, r.down, l.settings.SettleTime)
}

// rebootTimeout limits the request for a reboot. The shutdown itself ends the daemon.
const rebootTimeout = 30 * time.Second

// reboot reboots the host for a failure that only a reboot resolves, if the settings allow it. It
// adds the result to the failure.
func reboot(ctx context.Context, host Host, s Settings, log *slog.Logger, r *result) bool {
	if !r.failure.Reboot || !s.Reboot || len(r.holders) > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, rebootTimeout)
	defer cancel()
	failure := *r.failure
	r.failure = &failure
	if err := host.Reboot(ctx, s.Profile, failure.Text); err != nil {
		log.Error(err.Error())
		failure.Text += "; " + err.Error()
		return false
	}
	log.Warn("rebooting the host for profile "+s.Profile.Name, "error", failure.Text, event.Rebooting.Attr())
	failure.Text += "; rebooting the host"
	failure.Hint = ""
	return true
}
