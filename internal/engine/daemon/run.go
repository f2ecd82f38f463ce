package daemon

import (
	"context"
	"errors"
	"time"

	"dcm/internal/engine/runstate"
)

const (
	defaultRunTimeout    = 15 * time.Minute // above the TimeoutStartSec= of the oneshot
	defaultClientTimeout = 90 * time.Second
	firstRetryDelay      = 5 * time.Second
	maxRetryDelay        = 5 * time.Minute
)

// Run runs the daemon until ctx ends. If a start by an administrator fails before READY=1, Run
// returns a [ConfigError] or a [StartError]. After a start by systemd, and later, it reports the
// failure and continues. previous is the state that the previous daemon saved.
func (d *Daemon) Run(ctx context.Context, previous runstate.State) error {
	d.Limits.Run = orDefault(d.Limits.Run, defaultRunTimeout)
	d.Limits.Clients = orDefault(d.Limits.Clients, defaultClientTimeout)
	d.Limits.Retry.First = orDefault(d.Limits.Retry.First, firstRetryDelay)
	d.Limits.Retry.Most = orDefault(d.Limits.Retry.Most, maxRetryDelay)
	l := &loop{
		Daemon: d, log: d.Log, previous: previous,
		state:  published{State: previous, save: d.Save, notify: d.Notify, log: d.Log, notes: announced{files: d.Notes, idleSince: time.Now()}},
		origin: origin{dial: d.Dial, log: d.Log}, waker: newWaker(d.Use, d.DialWait), report: reporter{log: d.Log},
		dropins:  dropinLoader{stale: d.Stale, unwritten: d.Unwritten},
		starting: make(chan intent), attempts: make(attempts),
	}
	l.state.Version, l.state.Phase, l.state.Since = runstate.Version, runstate.Starting, time.Now()
	if err := l.start(ctx); err != nil {
		return err
	}
	for {
		if err := l.event(ctx); err != nil {
			l.waker.stop()
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}

// start reads the configuration and begins the first pass.
func (l *loop) start(ctx context.Context) error {
	if err := l.configure(ctx); err != nil {
		failure := &runstate.Error{Text: err.Error()}
		if !l.origin.bySystemd(ctx) {
			l.state.enter(runstate.Stuck, failure)
			l.state.announce()
			return &ConfigError{err}
		}
		l.ready.reach()
		if s, err := l.LastGood(); err == nil {
			l.adopt(s)
		} else {
			l.state.enter(runstate.Stuck, failure)
		}
	}
	l.state.announce()
	l.requests.note(l.state.noted(nil))
	l.requests.note(runstate.Asked{Why: "the daemon was started"})
	l.begin(ctx)
	return nil
}

// event waits for one event and handles it.
func (l *loop) event(ctx context.Context) error {
	select {
	case <-ctx.Done():
		warn(l.log, l.Lifecycle.Stopping())
		return ctx.Err()
	case <-l.Ticks:
		warn(l.log, l.Notify.Watchdog())
		if l.drift.differs(l.GPUs.Glance()) {
			l.onDeviceEvent(ctx)
		}
	case <-l.Changed:
		l.onEdit(ctx)
	case <-l.Devices:
		l.onDeviceEvent(ctx)
	case <-l.Hangup:
		warn(l.log, l.Lifecycle.Reloading())
		l.ready.reloading = true
		l.requests.forced = true
		l.state.readNotes()
		l.requests.note(l.state.noted(nil))
		l.look(ctx, runstate.Asked{Why: "reload requested"})
	case r := <-l.Requests:
		l.onRequest(ctx, r)
	case <-l.waker.retry:
		l.look(ctx, runstate.Asked{}) // the retry was reported with the failure
	case <-l.deadline.wake:
		l.onDeadline(ctx)
	case why := <-l.waker.freed:
		l.look(ctx, runstate.Asked{Why: why})
	case why := <-l.waker.settled:
		l.startUnits(ctx, why)
	case i := <-l.starting:
		i.saved <- l.state.saveIntent(i, l.settings.hash())
	case r := <-l.pass:
		l.pass, l.state.notes.idleSince = nil, time.Now()
		return l.finish(ctx, r)
	}
	return nil
}
