package daemon

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// start reads the configuration and begins the first pass.
func (l *loop) start(ctx context.Context) error {
	if err := l.configure(ctx); err != nil {
		failure := &runstate.Error{Text: err.Error()}
		if !l.origin.bySystemd(ctx, l.log.Warn) {
			l.state.enter(runstate.Stuck, failure)
			l.state.announce()
			return &ConfigError{err}
		}
		l.started, l.reload = true, true
		if s, err := l.LastGood(); err == nil {
			l.adopt(s)
		} else {
			l.state.enter(runstate.Stuck, failure)
		}
	}
	l.state.announce()
	l.requests.note(l.Started)
	l.requests.note(runstate.Asked{Why: "the daemon was started"})
	l.begin(ctx)
	return nil
}

// configure reads the configuration. If it cannot be used, the last good one stays effective.
func (l *loop) configure(ctx context.Context) error {
	s, err := l.Load()
	if err != nil {
		text := err.Error()
		reported := l.state.Config == text && (l.started || l.previous.Config == text && l.origin.bySystemd(ctx, l.log.Warn))
		l.state.Config = text
		if !reported {
			l.report.rejected(text, l.usable)
		}
		return err
	}
	if l.state.Config != "" {
		l.log.Info("the configuration is in order again")
	}
	l.state.Config = ""
	l.adopt(s)
	return nil
}

// adopt makes settings effective.
func (l *loop) adopt(s Settings) {
	l.settings, l.usable = s, true
	l.log = l.Log.With("profile", s.Profile.Name)
	l.report.log, l.state.log = l.log, l.log
	l.state.Profile, l.state.Source, l.state.Warnings = s.Profile.Name, s.Source, s.Warnings
	for _, w := range s.Warnings {
		l.log.Warn(w)
	}
}

// intent is a run that is about to begin. The pass continues when it is saved.
type intent struct {
	unit    string        // to be restarted
	pending pendingStarts // the units to start if the run fails
	asked   runstate.Asked
	saved   chan error // of 1
}

// saveIntent saves what a run is about to do. If that fails no unit may be stopped: the units to
// start after a failure would be lost.
func (l *loop) saveIntent(i intent) error {
	before := l.state.State
	i.pending.into(&l.state.State)
	l.state.Tries++
	l.state.Tried, l.state.Wish = time.Now(), l.settings.hash()
	if i.unit == unitname.Apply { // no other one changes the GPUs
		l.state.Holders, l.state.Asked = nil, &i.asked
		l.state.enter(runstate.Applying, nil)
	}
	if err := l.state.publish(); err != nil {
		l.state.State = before
		return fmt.Errorf("no unit is stopped, since what is to be started again cannot be written down: %w", err)
	}
	return nil
}

// overtaken reads the edit that a run has read before the daemon, so that the result is reported
// with its own profile.
func (l *loop) overtaken(ctx context.Context) {
	before := l.settings
	_ = l.configure(ctx) // an error was reported
	l.state.Wish = l.settings.hash()
	if before.same(l.settings) { // the edit that the run has read is gone again
		l.due = lookAgain
	}
}
