package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"dcm/internal/event"
	"dcm/internal/report"
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
	Log      *slog.Logger // with the profile that the story is about
	state    report.State
	settings Settings
	started  bool // READY=1 was sent
	reload   bool // a start or a SIGHUP is to be answered with READY=1
	again    bool // something changed while a pass was under way
	failures int  // transient failures in a row
	drift

	pass     chan outcome       // the pass under way delivers here; nil if none is
	applying chan []string      // the pass has found work and is about to begin it
	retry    <-chan time.Time   // the next try; nil if none is due
	freed    chan struct{}      // a holder has ended
	stop     context.CancelFunc // ends the watch on holders
	requests []Request          // to be answered when there is rest
}

// Run is the daemon until ctx ends. Before it has said READY=1 a failure ends it
// with a [ConfigError] or a [StartError]; afterwards it tells, and stays.
func (d *Daemon) Run(ctx context.Context, initial report.State) error {
	d.defaults()
	l := &loop{Daemon: d, Log: d.Log, state: initial, freed: make(chan struct{}, 1), stop: func() {}}
	l.applying = make(chan []string)
	l.state.Version, l.state.Phase, l.state.Since = report.Version, report.Starting, time.Now()
	if err := l.configure(); err != nil {
		l.fail(report.Stuck, &report.Error{Text: err.Error()})
		return &ConfigError{err}
	}
	l.announce()
	l.begin(ctx)
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
	case <-l.Changed:
		l.edited(ctx)
	case <-l.Devices:
		l.stir(ctx)
	case <-l.Hangup:
		l.tell(l.Notify.Reloading())
		l.reload = true
		l.look(ctx, "asked to reload")
	case r := <-l.Requests:
		l.asked(ctx, r)
	case <-l.retry:
		l.look(ctx, "trying again")
	case <-l.freed:
		l.look(ctx, "a process that held a GPU has ended")
	case owed := <-l.applying:
		l.state.Holders, l.state.Owed = nil, owed
		l.enter(report.Applying, nil)
		l.announce()
	case o := <-l.pass:
		l.pass = nil
		return l.finish(ctx, o)
	}
	return nil
}

// look begins a pass, or has one begun when the present one is over.
func (l *loop) look(ctx context.Context, why string) {
	l.Log.Info("looking at the GPUs: "+why, "reason", why)
	if l.pass != nil {
		l.again = true
		return
	}
	// A bad configuration was told; the last good one stays in force.
	_ = l.configure()
	l.begin(ctx)
}

// edited makes the look that follows an edit. One that cannot be used changes
// nothing; and where only something else helps, or GPUs are left as somebody made
// them, one that says the same is no reason to restart clients.
func (l *loop) edited(ctx context.Context) {
	const why = "the configuration changed"
	if l.pass != nil {
		l.look(ctx, why)
		return
	}
	before := l.settings
	err := l.configure()
	left := l.state.Phase == report.Stuck || l.state.Phase == report.Drifted
	if err != nil || left && before.same(l.settings) {
		l.answer()
		return
	}
	l.Log.Info("looking at the GPUs: "+why, "reason", why)
	l.begin(ctx)
}

// same tells that two settings ask for the same, wherever they are written.
func (s Settings) same(other Settings) bool {
	s.Source, s.Warnings = other.Source, other.Warnings
	return reflect.DeepEqual(s, other)
}

// configure reads the configuration. A bad one leaves the last good one in force.
func (l *loop) configure() error {
	s, err := l.Load()
	if err != nil {
		l.state.Config = err.Error()
		l.Log.Error(rejected(l.started)+":\n"+err.Error(), "error", err.Error(), event.ConfigRejected.Attr())
		return err
	}
	if l.state.Config != "" {
		l.Log.Info("the configuration is in order again")
	}
	l.state.Config = ""
	l.settings = s
	l.Log = l.Daemon.Log.With("profile", s.Profile.Name)
	l.state.Profile, l.state.Source, l.state.Warnings = s.Profile.Name, s.Source, s.Warnings
	for _, w := range s.Warnings {
		l.Log.Warn(w)
	}
	return nil
}

// begin starts a pass with the settings in force.
func (l *loop) begin(ctx context.Context) {
	l.again, l.stirred = false, false
	l.forget()
	l.run(ctx, l.newPass())
}

// forget cancels the next try.
func (l *loop) forget() {
	l.stop()
	l.stop = func() {}
	l.retry = nil
}

func (l *loop) newPass() *pass {
	return &pass{Daemon: l.Daemon, Log: l.Log, settings: l.settings, started: l.started, owed: l.state.Owed}
}

func (l *loop) run(ctx context.Context, p *pass) {
	results := make(chan outcome, 1)
	l.pass = results
	p.applying = func(owed []string) {
		select {
		case l.applying <- owed: // taken before the pass goes on, and so before its end
		case <-ctx.Done():
		}
	}
	go func() { results <- p.do(ctx) }()
}

// finish deals with the end of a pass.
func (l *loop) finish(ctx context.Context, o outcome) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if o.unchanged {
		l.next(ctx)
		return nil
	}
	l.forget()
	l.seen = o.seen
	l.state.Holders, l.state.Owed = o.holders, o.owed
	l.state.Warnings = append(slices.Clone(l.settings.Warnings), o.advice...)
	if o.clients != nil {
		l.state.Clients = o.clients
	}
	if o.restart.Run != "" {
		l.state.Restart = o.restart
	}
	switch {
	case o.drift != nil:
		l.drifted(o)
	case o.failure == nil:
		l.succeeded(o)
	case l.again && !l.started:
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
	switch {
	case l.again:
		l.look(ctx, "something changed during the last look")
		return
	case l.stirred:
		l.stir(ctx)
	}
	l.answer()
}

func (l *loop) succeeded(o outcome) {
	l.failures = 0
	l.mended(o)
	phase := report.InSync
	if !l.settings.Selected {
		phase = report.Idle
	} else {
		l.tell(l.Host.Reached(l.settings.Profile))
	}
	if o.stirred && o.clients == nil && l.state.Phase == report.InSync {
		o.problem = l.state.Error // nothing has happened that it could be mended by
	}
	l.enter(phase, o.problem)
	l.content(o)
	if !l.started {
		l.started, l.reload = true, true
	}
}

// failed decides what comes after a failed pass. Before READY=1 that is systemd's
// business: it shows the reason and restarts by its own back-off.
func (l *loop) failed(ctx context.Context, o outcome) error {
	l.blame(o)
	rebooting := l.reboot(ctx, &o)
	if !l.started {
		phase := report.Stuck
		if rebooting {
			phase = report.Rebooting
		}
		if o.failure.Transient {
			phase = report.Waiting
		}
		l.fail(phase, o.failure)
		return &StartError{Reason: *o.failure}
	}
	switch {
	case rebooting:
		l.enter(report.Rebooting, o.failure)
		return nil
	case !o.failure.Transient:
		l.enter(report.Stuck, o.failure)
		return nil
	}
	if o.held {
		l.putOff()
	}
	l.failures++
	wait := l.Limits.Retry.After(l.failures)
	l.retry = time.After(wait)
	l.state.Retry = time.Now().Add(wait)
	l.watch(ctx, o.holders)
	l.enter(report.Waiting, o.failure)
	return nil
}

// watch wakes the loop as soon as a process that is in the way has ended.
func (l *loop) watch(ctx context.Context, holders []report.Holder) {
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
func (l *loop) fail(phase report.Phase, failure *report.Error) {
	l.enter(phase, failure)
	l.announce()
}

// enter changes the phase. What is entered is announced with all the rest.
func (l *loop) enter(phase report.Phase, failure *report.Error) {
	if phase != report.Waiting {
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
	if err := l.Save(l.state); err != nil {
		l.Log.Error(err.Error())
	}
	l.tell(l.Notify.Status(l.status()))
}

// status is the line that systemctl status shows.
func (l *loop) status() string {
	s := l.state
	var b strings.Builder
	switch s.Phase {
	case report.Idle:
		b.WriteString("No profile is selected; the GPUs are left alone")
	case report.InSync:
		fmt.Fprintf(&b, "Profile %s is on the GPUs", s.Profile)
	case report.Rebooting:
		fmt.Fprintf(&b, "Rebooting, to put profile %s on the GPUs", s.Profile)
	case report.Drifted:
		fmt.Fprintf(&b, "Profile %s is not on the GPUs any more", s.Profile)
	case report.Waiting:
		fmt.Fprintf(&b, "Profile %s is not on the GPUs", s.Profile)
		if !s.Retry.IsZero() {
			b.WriteString(", trying again at " + s.Retry.Format(time.TimeOnly))
		}
	case report.Stuck:
		if s.Profile != "" {
			fmt.Fprintf(&b, "Profile %s is not on the GPUs", s.Profile)
		} else {
			b.WriteString("Not started")
		}
	case report.Applying:
		fmt.Fprintf(&b, "Putting profile %s on the GPUs", s.Profile)
	default:
		b.WriteString("Looking at the GPUs")
	}
	if s.Error != nil {
		b.WriteString(": " + oneLine(s.Error.Text))
	}
	if s.Config != "" && s.Phase != report.Stuck {
		b.WriteString(" (the configuration on disk is not in force: " + oneLine(s.Config) + ")")
	}
	return b.String()
}

func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }
