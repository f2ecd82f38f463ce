package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"dcm/internal/engine/runstate"
)

const (
	defaultRunTimeout    = 15 * time.Minute // above the TimeoutStartSec= of the oneshot
	defaultDeviceTimeout = time.Minute
	defaultClientTimeout = 90 * time.Second
	firstRetryDelay      = 5 * time.Second
	maxRetryDelay        = 5 * time.Minute
)

// loop is the daemon between events. It runs at most one pass at a time.
type loop struct {
	*Daemon
	log      *slog.Logger   // with the effective profile
	previous runstate.State // what the daemon before this one left in this boot
	state    published
	settings Settings
	usable   bool // there are settings: a usable configuration was read
	started  bool // READY=1 was sent, or is about to be
	reload   bool // a start or a SIGHUP is to be answered with READY=1
	attempts int  // transient failures in a row

	origin   origin
	requests requests
	drift    drift
	waker    waker
	report   reporter
	reloads  reloads

	pass     chan result // the pass under way delivers here; nil if none is
	due      due         // what follows it
	starting chan intent // the pass is about to restart units
}

// Run is the daemon until ctx ends. If a start by an administrator fails before READY=1, Run
// returns a [ConfigError] or a [StartError]. After a start by systemd, and later, it reports the
// failure and continues. previous is what the daemon before it has left.
func (d *Daemon) Run(ctx context.Context, previous runstate.State) error {
	d.Limits.Run = orDefault(d.Limits.Run, defaultRunTimeout)
	d.Limits.Clients = orDefault(d.Limits.Clients, defaultClientTimeout)
	d.Limits.Retry.First = orDefault(d.Limits.Retry.First, firstRetryDelay)
	d.Limits.Retry.Most = orDefault(d.Limits.Retry.Most, maxRetryDelay)
	l := &loop{
		Daemon: d, log: d.Log, previous: previous,
		state:  published{State: previous, save: d.Save, notify: d.Notify, log: d.Log},
		origin: origin{dial: d.Dial}, waker: newWaker(d.GPUs), report: reporter{log: d.Log},
		starting: make(chan intent),
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

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// event waits for one event and handles it.
func (l *loop) event(ctx context.Context) error {
	select {
	case <-ctx.Done():
		warn(l.log, l.Notify.Stopping())
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
		warn(l.log, l.Notify.Reloading())
		l.reload, l.requests.forced = true, true
		l.look(ctx, "asked to reload")
	case r := <-l.Requests:
		l.requests.add(r)
		l.look(ctx, r.Asked.Why)
	case <-l.waker.retry:
		l.look(ctx, "") // the retry was reported with the failure
	case <-l.waker.freed:
		l.look(ctx, "what held a GPU has let go of it")
	case i := <-l.starting:
		i.saved <- l.saveIntent(i)
	case r := <-l.pass:
		l.pass = nil
		return l.finish(ctx, r)
	}
	return nil
}

// look begins a pass, or has one begun when the present one is over.
func (l *loop) look(ctx context.Context, why string) {
	l.report.looking(why)
	l.requests.note(runstate.Asked{Why: why})
	if l.pass != nil {
		l.due = lookAgain
		return
	}
	_ = l.configure(ctx) // an error was reported, and the last good configuration stays effective
	l.begin(ctx)
}

// due is what follows the pass under way.
type due int

const (
	nothingDue due = iota
	compareDue     // the configuration was written: a look if it asks for something else
	lookAgain      // a look
)

// onEdit begins a pass after an edit. An edit that cannot be used changes nothing. Neither does
// one that asks for the same after a failure: the retry, if there is one, keeps its time, and no
// client is restarted for it.
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

// reread reads the configuration after an edit and begins a pass. It begins none and returns
// false if the configuration cannot be used. Neither does it if decided is set, because there is
// a result for these settings, and they ask for the same as before.
func (l *loop) reread(ctx context.Context, decided bool) bool {
	const why = "the configuration changed"
	before, usable := l.settings, l.usable
	if err := l.configure(ctx); err != nil || usable && decided && before.same(l.settings) {
		return false
	}
	l.report.looking(why)
	l.requests.note(runstate.Asked{Why: why})
	l.begin(ctx)
	return true
}

// begin starts a pass with the effective settings.
func (l *loop) begin(ctx context.Context) {
	l.due, l.drift.event = nothingDue, false
	l.waker.cancel()
	l.run(ctx, l.newPass(l.requests.take()))
	l.requests.forced = false
}

func (l *loop) newPass(why runstate.Asked) *pass {
	log := &passLog{l.log}
	pid1 := &manager{dial: l.Dial, notify: l.Notify, log: log, limits: l.Limits}
	f := failuresIn(l.state.State, l.previous, l.settings)
	f.fresh = !l.started
	return &pass{
		Daemon: l.Daemon, log: log, settings: l.settings, usable: l.usable, asked: why, forced: l.requests.forced,
		failures: f, reloads: &l.reloads, pid1: pid1,
		gpus:   &observer{gpus: l.GPUs, timeout: orDefault(l.settings.Timeout, defaultDeviceTimeout)},
		starts: &starter{pid1: pid1, log: log, require: l.settings.Require, clients: l.Limits.Clients, pending: pendingIn(l.state.State), driverUnloaded: l.GPUs.DriverUnloaded},
	}
}

func (l *loop) run(ctx context.Context, p *pass) {
	results := make(chan result, 1)
	l.pass = results
	p.unseen = l.unseenUse(ctx)
	p.begin = func(unit string, ifFailed pendingStarts) error {
		i := intent{unit: unit, pending: ifFailed, asked: p.asked, saved: make(chan error, 1)}
		select {
		case l.starting <- i:
			return <-i.saved
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() { results <- p.do(ctx) }()
}

// warn logs an error of a notification.
func warn(log *slog.Logger, err error) {
	if err != nil {
		log.Warn(err.Error())
	}
}

// If the driver is busy but no holder is visible, a run stops the clients needlessly, and so
// would the next one. There is no other run until something has changed: the driver's use count
// falls, the settings ask for something else, or an administrator requests one. The state has
// the use that was found then, for the next daemon too.

// unseenUse returns the use that no restart of the clients would end, nil if there is none or an
// attempt is due all the same.
func (l *loop) unseenUse(ctx context.Context) *runstate.Use {
	if l.state.Unseen == nil || l.state.Wish != l.settings.hash() || l.requests.forced {
		return nil
	}
	if !l.started && !l.origin.bySystemd(ctx, l.log.Warn) {
		return nil // an administrator has started the daemon
	}
	return l.state.Unseen
}
