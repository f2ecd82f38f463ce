package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
)

// loop is the daemon between events. It runs at most one pass at a time: run.go waits for
// events, look.go starts a pass, and finish.go decides what follows one.
type loop struct {
	*Daemon
	log      *slog.Logger   // with the effective profile
	previous runstate.State // saved by the previous daemon of this boot
	state    published
	settings Settings
	usable   bool // a valid configuration was read
	ready    readiness
	attempts attempts

	origin   origin
	requests requests
	drift    drift
	waker    waker
	deadline deadline
	report   reporter
	dropins  dropinLoader

	abandoned    abandoned
	hints        []string // warnings of the last pass
	failedStarts []string // services that were started during a run and failed

	pass     chan result // the pass under way delivers here; nil if none is
	due      due         // what follows it
	starting chan intent // the pass is about to restart units
}

// attempts are the transient failures since the last success, by cause. A change that was refused for
// minutes must not delay the repair after a run that failed.
type attempts map[cause]int

// cause is why an attempt failed.
type cause int

const (
	refused cause = iota // no unit was stopped
	runFailed
)

func causeOf(r result) cause {
	if r.clients == nil {
		return refused
	}
	return runFailed
}

// due is what follows the pass under way.
type due int

const (
	nothingDue due = iota
	compareDue     // the configuration was written: start a pass if the settings differ
	lookAgain      // start a pass
)

// readiness is what the daemon has reported to the service manager.
type readiness struct {
	reached   bool // READY=1 was sent, or is about to be
	reloading bool // READY=1 is to be sent again
}

// reach makes READY=1 due, unless it was sent.
func (r *readiness) reach() {
	r.reloading = r.reloading || !r.reached
	r.reached = true
}

// due reports, once, that READY=1 is to be sent.
func (r *readiness) due() bool {
	due := r.reached && r.reloading
	r.reloading = r.reloading && !due
	return due
}

// configure reads the configuration. If it cannot be used, the last good one stays effective.
func (l *loop) configure(ctx context.Context) error {
	s, err := l.Load()
	if err != nil {
		text := err.Error()
		reported := l.state.Config == text && (l.ready.reached || l.previous.Config == text && l.origin.bySystemd(ctx))
		l.state.Config = text
		if !reported {
			l.report.rejected(text, l.usable)
		}
		return err
	}
	if l.state.Config != "" {
		l.log.Info("the configuration is valid again")
		l.state.notes.idleSince = time.Now() // it hid the selections of commands
	}
	l.state.Config = ""
	if l.pass == nil {
		l.state.ageNotes()
	}
	l.state.choose(s)
	if !s.same(l.settings) {
		l.requests.note(runstate.Asked{Why: s.Expired})
	}
	l.adopt(s)
	return nil
}

// adopt makes settings effective.
func (l *loop) adopt(s Settings) {
	l.settings, l.usable = s, true
	l.deadline.set(s.ConfirmBy)
	l.log = l.Log.With("profile", s.Profile.Name)
	l.report.log, l.state.log = l.log, l.log
	l.state.Profile, l.state.Source, l.state.Warnings = s.Profile.Name, s.Source, slices.Concat(s.Warnings, l.hints)
	for _, w := range s.Warnings {
		l.log.Warn(w)
	}
}

// answer publishes the state, and answers the requests and, with READY=1, a start or a reload.
func (l *loop) answer() {
	l.state.announce()
	if l.state.Phase != runstate.Rolling { // a caller waits for the last round
		l.requests.answer(l.state.State)
	}
	if l.ready.due() {
		warn(l.log, l.Lifecycle.Ready())
	}
}

// warn logs an error of a notification.
func warn(log *slog.Logger, err error) {
	if err != nil {
		log.Warn(err.Error())
	}
}
