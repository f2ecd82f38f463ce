package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// rejected introduces the problems of a configuration.
func rejected(usable bool) string {
	if usable {
		return "the configuration cannot be used, and the last good one stays in force"
	}
	return "the configuration cannot be used"
}

// restarting names the units that a transaction takes down and brings up.
func restarting(unit string, bounced []systemd.Unit) string {
	if len(bounced) == 0 {
		return "restarting " + unit + "; no client is active"
	}
	return fmt.Sprintf("restarting %s, and with it %s", unit, strings.Join(ids(bounced), ", "))
}

// logSuccess tells that a pass ended well.
func (l *loop) logSuccess(o result) {
	switch {
	case !l.usable: // which was told
	case o.later != nil:
		l.blameLater(o.later)
	case o.stirred && o.restart.Run == "": // the kernel's event was of no consequence
	case l.state.Phase == runstate.Idle:
		l.Log.Info("no profile is selected; the GPUs are left alone")
	case o.restart.Run == "":
		l.Log.Info(fmt.Sprintf("profile %s is on the GPUs; nothing had to be done", l.state.Profile))
	case o.problem == nil:
		l.Log.With("run", o.restart.Run).Info(fmt.Sprintf("profile %s is on the GPUs, and the clients are as they were, after %s",
			l.state.Profile, o.restart.Settled.Sub(o.restart.Asked).Round(time.Millisecond)))
	}
}

// looking tells that the GPUs are looked at because something has happened.
func (l *loop) looking(why string) {
	if why != "" {
		l.Log.Info("looking at the GPUs: "+why, "reason", why)
	}
}

// addHint says of a selection that these GPUs cannot have how to withdraw it.
func (l *loop) addHint(o *result) {
	if o.failure.Transient || !l.settings.Selected || strings.Contains(o.failure.Cure, runstate.Withdraw) {
		return
	}
	failure := *o.failure
	if failure.Cure != "" {
		failure.Cure = strings.TrimSuffix(failure.Cure, ".") + "; "
	}
	failure.Cure += fmt.Sprintf("%s (it is selected by %s)", runstate.Withdraw, l.settings.Source)
	o.failure = &failure
}

// logFailure tells why a pass failed: once, however often it is tried again.
func (l *loop) logFailure(ctx context.Context, o result) {
	known := l.blamed
	if known == "" && !l.started && l.last.Error != nil && l.restarted(ctx) {
		known = l.last.Error.Text
	}
	if l.blamed = o.failure.Text; known == l.blamed {
		return
	}
	text := fmt.Sprintf("profile %s is not on the GPUs: %s", l.state.Profile, o.failure.Text)
	if o.failure.Cure != "" {
		text += "\ncure: " + o.failure.Cure
	}
	id := o.end
	switch {
	case id != "":
	case len(o.holders) > 0:
		id = event.InUse
	default:
		id = event.Refused
	}
	l.Log.With("run", o.restart.Run, "cure", o.failure.Cure).Error(text, "error", o.failure.Text, id.Attr())
}

// blameLater logs why dcm-reserve.service is to be run again: once, however often that is.
func (l *loop) blameLater(e *runstate.Error) {
	if l.blamed == e.Text {
		return
	}
	l.blamed = e.Text
	text := e.Text
	if e.Cure != "" {
		text += "\ncure: " + e.Cure
	}
	l.Log.Error(text, "error", e.Text, "cure", e.Cure, event.RunFailed.Attr())
}

// ending is the event that a failed run ended with, which is the one that the run
// has told itself, if it came to that.
func ending(u systemd.Unit, run *runstate.Run) event.ID {
	switch {
	case len(run.Holders) > 0:
		return event.InUse
	case run.Result == runstate.Refused, run.Result == "" && u.Failed.Before():
		return event.Refused
	case run.Result == runstate.RolledBack:
		return event.RolledBack
	}
	return event.RunFailed
}
