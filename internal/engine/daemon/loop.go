package daemon

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

const (
	defaultRun     = 15 * time.Minute // above the TimeoutStartSec= of the oneshot
	defaultDevices = time.Minute
	defaultClients = 90 * time.Second
	firstRetry     = 5 * time.Second
	mostRetry      = 5 * time.Minute
)

// loop is the daemon's memory between events.
type loop struct {
	*Daemon
	Log      *slog.Logger   // with the profile that the story is about
	last     runstate.State // what the daemon before this one left in this boot
	state    runstate.State
	settings Settings
	usable   bool          // there are settings: a configuration was read that can be used
	started  bool          // READY=1 was sent
	reload   bool          // a start or a SIGHUP is to be answered with READY=1
	due      due           // what follows the pass under way
	word     bool          // an administrator has asked for the next pass
	failures int           // transient failures in a row
	blamed   string        // the failure that the journal has last been told of
	own      *systemd.Unit // the daemon's unit; nil until it was read
	drift

	ordered map[string]string // the drop-ins that a pass has requested a daemon-reload for, and the generator did not write

	pass     chan result        // the pass under way delivers here; nil if none is
	applying chan intent        // the pass has found work and is about to begin it
	retry    <-chan time.Time   // the next try; nil if none is due
	freed    chan struct{}      // a holder has ended
	stop     context.CancelFunc // ends the watch on holders
	requests []Request          // to be answered when there is rest

	why   runstate.Asked // what the next pass is for; zero for one that tries again
	first runstate.Asked // what the last pass was for that did not
}

// Run is the daemon until ctx ends. A failure before it has said READY=1 ends a
// daemon that somebody has started, with a [ConfigError] or a [StartError]; one
// that systemd has started again tells, and stays, as it does later on. last is
// what the daemon before it has left.
func (d *Daemon) Run(ctx context.Context, last runstate.State) error {
	d.defaults()
	l := &loop{Daemon: d, Log: d.Log, last: last, state: last, freed: make(chan struct{}, 1), stop: func() {}}
	l.applying = make(chan intent)
	l.state.Version, l.state.Phase, l.state.Since = runstate.Version, runstate.Starting, time.Now()
	if err := l.start(ctx); err != nil {
		return err
	}
	for {
		if err := l.event(ctx); err != nil {
			l.stop()
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}

func (d *Daemon) defaults() {
	d.Limits.Run = orDefault(d.Limits.Run, defaultRun)
	d.Limits.Clients = orDefault(d.Limits.Clients, defaultClients)
	d.Limits.Retry.First = orDefault(d.Limits.Retry.First, firstRetry)
	d.Limits.Retry.Most = orDefault(d.Limits.Retry.Most, mostRetry)
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// event waits for one thing to happen and deals with it.
func (l *loop) event(ctx context.Context) error {
	select {
	case <-ctx.Done():
		l.tell(l.Notify.Stopping())
		return ctx.Err()
	case <-l.Ticks:
		l.tell(l.Notify.Watchdog())
		l.glance(ctx)
	case <-l.Changed:
		l.edited(ctx)
	case <-l.Devices:
		l.onDeviceEvent(ctx)
	case <-l.Hangup:
		l.tell(l.Notify.Reloading())
		l.reload, l.word = true, true
		l.look(ctx, "asked to reload")
	case r := <-l.Requests:
		l.asked(ctx, r)
	case <-l.retry:
		l.look(ctx, "") // that it is tried again was told with the failure
	case <-l.freed:
		l.look(ctx, "what held a GPU has let go of it")
	case i := <-l.applying:
		i.written <- l.intend(i)
	case o := <-l.pass:
		l.pass = nil
		return l.finish(ctx, o)
	}
	return nil
}

// look begins a pass, or has one begun when the present one is over.
func (l *loop) look(ctx context.Context, why string) {
	l.looking(why)
	l.because(runstate.Asked{Why: why})
	if l.pass != nil {
		l.due = lookAgain
		return
	}
	// A bad configuration was told; the last good one stays in force.
	_ = l.configure(ctx)
	l.begin(ctx)
}

// due is what follows the pass under way.
type due int

const (
	nothingDue due = iota
	compareDue     // the configuration was written: a look if it asks for something else
	lookAgain      // a look
)

// edited makes the look that follows an edit. An edit that cannot be used changes
// nothing. Neither does one that asks for the same after a failure: the retry, if
// there is one, keeps its time, and no client is restarted for it.
func (l *loop) edited(ctx context.Context) {
	if l.pass != nil {
		l.due = max(l.due, compareDue)
		return
	}
	failed := l.state.Phase == runstate.Stuck || l.state.Phase == runstate.Drifted || l.state.Phase == runstate.Waiting || !l.state.Retry.IsZero()
	if !l.reread(ctx, failed) {
		l.answer()
	}
}

// reread reads the configuration after an edit and begins a look. It begins none and
// returns false if the configuration cannot be used, or if judged is set, because there
// is a verdict on these settings, and they ask for the same as before.
func (l *loop) reread(ctx context.Context, judged bool) bool {
	const why = "the configuration changed"
	before, usable := l.settings, l.usable
	if err := l.configure(ctx); err != nil || usable && judged && before.same(l.settings) {
		return false
	}
	l.looking(why)
	l.because(runstate.Asked{Why: why})
	l.begin(ctx)
	return true
}

// outdated reports whether the verdict of the pass that has ended is on a configuration
// that is no longer there.
func (l *loop) outdated() bool {
	if l.due == compareDue {
		now, err := l.Load()
		return err == nil && !now.same(l.settings)
	}
	return l.due == lookAgain
}

// same reports whether two settings ask for the same, wherever they are written.
func (s Settings) same(other Settings) bool { return reflect.DeepEqual(s.wish(), other.wish()) }

// wish is what settings ask for: not where that is written, nor what was chosen for
// reservations so far, which a run changes.
func (s Settings) wish() Settings {
	s.Source, s.Warnings = "", nil
	s.Order.Released = nil
	s.Order.Reserved = slices.Clone(s.Order.Reserved)
	for i := range s.Order.Reserved {
		s.Order.Reserved[i].Changed = false
	}
	return s
}

// configure reads the configuration. A bad one leaves the last good one in force.
func (l *loop) configure(ctx context.Context) error {
	s, err := l.Load()
	if err != nil {
		l.reject(ctx, err)
		return err
	}
	if l.state.Config != "" {
		l.Log.Info("the configuration is in order again")
	}
	l.state.Config = ""
	l.adopt(s)
	return nil
}

// adopt puts settings in force.
func (l *loop) adopt(s Settings) {
	l.settings, l.usable = s, true
	l.Log = l.Daemon.Log.With("profile", s.Profile.Name)
	l.state.Profile, l.state.Source, l.state.Warnings = s.Profile.Name, s.Source, s.Warnings
	for _, w := range s.Warnings {
		l.Log.Warn(w)
	}
}

// begin starts a pass with the settings in force.
func (l *loop) begin(ctx context.Context) {
	l.due, l.stirred = nothingDue, false
	l.forget()
	p := l.newPass()
	p.asked = l.reason()
	l.run(ctx, p)
	l.word = false
}

// forget cancels the next try.
func (l *loop) forget() {
	l.stop()
	l.stop = func() {}
	l.retry = nil
}

func (l *loop) newPass() *pass {
	return &pass{Daemon: l.Daemon, Log: l.Log, settings: l.settings, usable: l.usable, last: l.verdict(), failedBefore: l.state.Error != nil, owed: debtsOf(l.state), word: l.word, ordered: &l.ordered}
}

func (l *loop) run(ctx context.Context, p *pass) {
	results := make(chan result, 1)
	l.pass = results
	p.hidden = l.hidden(ctx)
	p.applying = func(unit string, owed pendingStarts) error {
		i := intent{unit: unit, owed: owed, asked: p.asked, written: make(chan error, 1)}
		select {
		case l.applying <- i:
			return <-i.written
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() { results <- p.do(ctx) }()
}

// finish deals with the end of a pass.
func (l *loop) finish(ctx context.Context, o result) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if o.unchanged {
		l.next(ctx)
		return nil
	}
	l.forget()
	l.seen = o.seen
	l.remain(o)
	l.state.Holders = o.holders
	o.owed.into(&l.state)
	l.state.Warnings = append(slices.Clone(l.settings.Warnings), o.advice...)
	if o.clients != nil {
		l.state.Clients = o.clients
	}
	l.state.Clients = amended(l.state.Clients, o.repaid)
	if o.restart.Run != "" {
		l.state.Restart = o.restart
	}
	if o.other {
		l.overtaken(ctx)
	}
	switch {
	case o.drift != nil:
		l.drifted(o)
	case o.failure == nil:
		l.succeeded(o)
		if o.later != nil {
			l.wait(ctx, o, o.later)
			break
		}
		l.watch(ctx, o.holders) // who keeps reservations from what they want
	case !l.started && l.outdated():
		// The verdict is on a configuration that is no longer there.
	default:
		if err := l.failed(ctx, o); err != nil {
			return err
		}
	}
	l.next(ctx)
	return nil
}

// next makes the look that was asked for during the last one.
func (l *loop) next(ctx context.Context) {
	due := l.due
	l.due = nothingDue
	if due == lookAgain {
		l.look(ctx, "something changed during the last look")
		return
	}
	if due == compareDue && l.reread(ctx, true) {
		return
	}
	if l.stirred {
		l.onDeviceEvent(ctx)
	}
	l.answer()
}

func (l *loop) succeeded(o result) {
	if o.later == nil {
		l.failures, l.blamed, l.state.Tries = 0, "", 0
	}
	l.countRepair(o)
	phase := runstate.InSync
	switch {
	case !l.usable:
		phase, o.problem = runstate.Stuck, &runstate.Error{Text: l.state.Config}
	case !l.settings.Selected:
		phase = runstate.Idle
	default:
		l.tell(l.Host.Reached(l.settings.Profile))
	}
	if e := l.state.Error; o.stirred && o.clients == nil && l.state.Phase == runstate.InSync && (e == nil || !e.Transient) {
		o.problem = l.state.Error // nothing has happened that it could be mended by
	}
	if o.later != nil {
		o.problem = o.later
	}
	l.enter(phase, o.problem)
	l.logSuccess(o)
	l.up()
}

// failed decides what comes after a failed pass. Before READY=1 that is, for a
// daemon that somebody has started, to end with the reason.
func (l *loop) failed(ctx context.Context, o result) error {
	l.addHint(&o)
	l.logFailure(ctx, o)
	rebooting := l.reboot(ctx, &o)
	phase := runstate.Stuck
	switch {
	case rebooting:
		phase = runstate.Rebooting
	case o.failure.Transient:
		phase = runstate.Waiting
	}
	if !l.started && !l.restarted(ctx) {
		l.fail(phase, o.failure)
		return &StartError{Reason: *o.failure}
	}
	l.up()
	if phase == runstate.Waiting {
		l.wait(ctx, o, o.failure)
	}
	l.enter(phase, o.failure)
	return nil
}

// wait has the next try made after a while, or when a holder has ended.
func (l *loop) wait(ctx context.Context, o result, failure *runstate.Error) {
	if o.held {
		l.delayRepair()
	}
	l.failures++
	wait := l.Limits.Retry.After(l.failures)
	if o.spared > 0 {
		wait = o.spared
	}
	l.retry = time.After(wait)
	l.state.Retry = time.Now().Add(wait)
	if failure.Unseen != nil {
		l.ease(ctx, wait, *failure.Unseen)
		return
	}
	l.watch(ctx, o.holders)
}

// watch wakes the loop as soon as a process that is in the way has ended.
func (l *loop) watch(ctx context.Context, holders []runstate.Holder) {
	if len(holders) == 0 {
		return
	}
	ctx, l.stop = context.WithCancel(ctx)
	go func() {
		if l.GPUs.Gone(ctx, holders) == nil {
			select {
			case l.freed <- struct{}{}:
			default: // the loop is already to be woken
			}
		}
	}()
}

// fail publishes the state that a daemon leaves behind when it cannot start.
func (l *loop) fail(phase runstate.Phase, failure *runstate.Error) {
	l.enter(phase, failure)
	l.announce()
}

// enter changes the phase. What is entered is announced with all the rest.
func (l *loop) enter(phase runstate.Phase, failure *runstate.Error) {
	if phase != runstate.Waiting {
		l.state.Retry = time.Time{}
	}
	if phase != l.state.Phase {
		l.state.Since = time.Now()
	}
	l.state.Phase, l.state.Error = phase, failure
}

// answer tells systemd how things are, and whoever waits for a start or a reload
// that it is done.
func (l *loop) answer() {
	l.announce()
	l.reply()
	if l.started && l.reload {
		l.reload = false
		l.tell(l.Notify.Ready())
	}
}

// tell logs what kept systemd, or the next boot, from being told.
func (l *loop) tell(err error) {
	if err != nil {
		l.Log.Warn(err.Error())
	}
}

// announce publishes the state, to files and to systemd.
func (l *loop) announce() {
	if err := l.publish(); err != nil {
		l.Log.Error(err.Error())
	}
}

// publish sends the unit's status line and saves the state, in this order: Save can have a
// longer line sent concurrently, and the last line that is sent stays.
func (l *loop) publish() error {
	l.tell(l.Notify.Status(l.status()))
	return l.Save(l.state)
}
