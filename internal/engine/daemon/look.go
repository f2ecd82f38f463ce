package daemon

import (
	"context"
	"time"

	"dcm/internal/engine/runstate"
)

const defaultDeviceTimeout = time.Minute

// look begins a pass. If a pass is under way, look requests another one after it.
func (l *loop) look(ctx context.Context, asked runstate.Asked) {
	l.report.looking(asked.Why)
	l.requests.note(asked)
	if l.pass != nil {
		l.due = lookAgain
		return
	}
	_ = l.configure(ctx) // an error was reported, and the last good configuration stays effective
	l.begin(ctx)
}

// onRequest begins a pass for a request. A command of dcm has written a note. If the note was taken, the command's
// edit has begun a pass or a change in rounds. The request waits for its end: another pass would repeat a change
// that fails.
func (l *loop) onRequest(ctx context.Context, r Request) {
	who := r.Asked.Who
	var note runstate.Asked
	if who != nil {
		l.state.readNotes()
		note = l.state.noted(who)
	}
	if note.Why != "" {
		r.Asked = note
	} else if (l.pass != nil || l.state.Phase == runstate.Rolling) && l.requests.began(who) {
		l.requests.wait(r)
		return
	}
	l.requests.add(r)
	l.look(ctx, runstate.Asked{Why: r.Asked.Why})
}

// onEdit begins a pass after an edit. An invalid edit changes nothing. After a failure, an edit
// without effect on the settings changes nothing either: a pending retry keeps its time, and no
// client is restarted.
func (l *loop) onEdit(ctx context.Context) {
	if l.pass != nil {
		l.due = max(l.due, compareDue)
		return
	}
	failed := l.state.Phase == runstate.Stuck || l.state.Phase == runstate.Drifted || l.state.Phase == runstate.Waiting || !l.state.Retry.IsZero()
	if !l.reread(ctx, failed) {
		l.answer()
	}
}

// onDeadline reads the configuration when the deadline has passed. If the configuration cannot be used, or a pass is
// under way, the deadline remains, and is compared again after the interval.
func (l *loop) onDeadline(ctx context.Context) {
	if time.Now().Before(l.deadline.at) {
		l.deadline.set(l.deadline.at)
		return
	}
	l.deadline.wake = time.After(deadlineInterval)
	l.onEdit(ctx)
}

// reread reads the configuration after an edit and begins a pass. It begins none and returns false
// if the configuration is invalid. If decided is set, a result for the current settings exists;
// then it begins none either if the edit has no effect on the settings.
func (l *loop) reread(ctx context.Context, decided bool) bool {
	const why = "the configuration changed"
	before, usable := l.settings, l.usable
	if err := l.configure(ctx); err != nil || usable && decided && before.same(l.settings) {
		return false
	}
	l.report.looking(why)
	l.requests.note(l.state.noted(nil))
	l.requests.note(runstate.Asked{Why: why})
	l.begin(ctx)
	return true
}

// begin starts a pass with the effective settings.
func (l *loop) begin(ctx context.Context) {
	l.due, l.drift.event = nothingDue, false
	l.waker.cancel()
	p := l.newPass(l.requests.take(l.state.Phase == runstate.Rolling))
	if !p.forced && l.state.Wish == l.settings.hash() && p.limits().none() {
		p.abandoned = l.abandoned
	}
	l.run(ctx, p)
	l.requests.forced = false
}

// onDeviceEvent starts a pass that compares the GPUs with those after the last pass.
//
// Runs of dcm cause device events too, also those that fail. So the settings are not read
// again, a retry that is due stays due, and nothing follows if the GPUs are unchanged.
func (l *loop) onDeviceEvent(ctx context.Context) {
	if l.pass != nil {
		l.drift.event = true
		return
	}
	l.drift.event = false
	watched := l.state.Phase == runstate.InSync || l.state.Phase == runstate.Drifted
	ignored := !l.settings.Selected || l.settings.LeaveDrift && !watched
	if !l.ready.reached || ignored && !l.GPUs.DriverUnloaded() {
		return
	}
	p := l.newPass(runstate.Asked{Why: deviceEvent})
	p.byDevice, p.before, p.tooSoon = true, l.drift.fingerprint, l.drift.tooSoon()
	l.run(ctx, p)
}

// deviceEvent is the reason of a pass until it has found the cause, see [gpuHistory.cause].
const deviceEvent = "a device event"

// startUnits begins a pass for pending starts. While the profile is not on the GPUs it compares nothing, since a
// comparison would be another attempt. A pass under way starts them.
func (l *loop) startUnits(ctx context.Context, why string) {
	switch {
	case l.pass != nil:
	case l.state.Error == nil || l.state.Phase == runstate.InSync:
		l.look(ctx, runstate.Asked{Why: why})
	default:
		p := l.newPass(runstate.Asked{Why: why})
		p.startsOnly = l.state.Error
		l.run(ctx, p)
	}
}

func (l *loop) newPass(why runstate.Asked) *pass {
	log := &passLog{l.log}
	conn := &connection{dial: l.Dial, notify: l.Notify, log: log, limits: l.Limits}
	f := failuresIn(l.state.State, l.previous, l.settings)
	f.fresh = !l.ready.reached
	return &pass{
		Daemon: l.Daemon, log: log, settings: l.settings, usable: l.usable, asked: l.state.manner(why), forced: l.requests.forced,
		failures: f, failedStarts: l.failedStarts, dropins: &l.dropins, conn: conn,
		gpus:   &observer{gpus: l.GPUs, timeout: orDefault(l.settings.Timeout, defaultDeviceTimeout), history: l.drift.history},
		starts: &starter{conn: conn, log: log, require: l.settings.Require, partly: l.settings.mayFailPartly(), withheld: l.Withheld.Read, clients: l.Limits.Clients, pending: pendingIn(l.state.State), driverUnloaded: l.GPUs.DriverUnloaded},
	}
}

// run starts a pass. Before the pass restarts a unit, the loop saves its intent.
func (l *loop) run(ctx context.Context, p *pass) {
	results := make(chan result, 1)
	l.state.ageNotes()
	l.pass = results
	p.unseen = l.unseenUse(ctx)
	p.begin = func(i intent) error {
		i.asked, i.saved = p.asked, make(chan error, 1)
		select {
		case l.starting <- i:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-i.saved:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() { results <- p.do(ctx) }()
}

// If the driver is busy but no holder is visible, a run stops the clients needlessly, and so would
// the next one. There is no other run until the driver's use count falls, the settings change, or
// an administrator requests a run. The saved state has the use that the last run found, so that
// this also holds for the next daemon.

// unseenUse returns the driver's use that no restart of the clients would end. It returns nil if
// there is none, or if a run is due despite it.
func (l *loop) unseenUse(ctx context.Context) *runstate.Use {
	if l.state.Unseen == nil || l.state.Wish != l.settings.hash() || l.requests.forced {
		return nil
	}
	if !l.ready.reached && !l.origin.bySystemd(ctx) {
		return nil // an administrator has started the daemon
	}
	return l.state.Unseen
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
