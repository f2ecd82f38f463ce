package daemon

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
)

// reporter logs the results of passes. It logs a failure once, not at each retry.
type reporter struct {
	log     *slog.Logger // with the effective profile
	failure string       // the failure that was logged last
}

// rejected logs a configuration that cannot be used.
func (r *reporter) rejected(text string, lastGood bool) {
	intro := "the configuration cannot be used"
	if lastGood {
		intro += ", and the last good one stays effective"
	}
	r.log.Error(intro+":\n"+text, "error", text, event.ConfigRejected.Attr())
}

// looking logs that an event is the reason for a pass.
func (r *reporter) looking(why string) {
	if why != "" {
		r.log.Info("checking the GPUs: "+why, "reason", why)
	}
}

// success logs that a pass ended well.
func (r *reporter) success(s runstate.State, o result) {
	switch {
	case o.retryReserve != nil:
		r.retryReserve(o.retryReserve)
	case o.byDevice && o.restart.Run == "": // the event had no consequence
	case s.Phase == runstate.Idle:
		r.log.Info("no profile is selected; the GPUs are left alone")
	case o.restart.Run == "":
		r.log.Info(fmt.Sprintf("profile %s is on the GPUs; nothing to do", s.Profile))
	case o.problem == nil:
		r.log.With("run", o.restart.Run).Info(fmt.Sprintf("profile %s is on the GPUs, and the clients are back, after %s",
			s.Profile, o.restart.Settled.Sub(o.restart.Asked).Round(time.Millisecond)))
	}
}

// rolling logs that a round of a change has ended.
func (r *reporter) rolling(profile string, o result) {
	if o.round {
		r.log.With("run", o.restart.Run).Info(fmt.Sprintf("a round of the change to profile %s has ended (%s)", profile, o.progress))
	}
}

// failed logs why a pass failed. known is the failure that was logged before.
func (r *reporter) failed(profile string, o result, known string) {
	if r.failure = o.failure.Text; known == r.failure {
		return
	}
	id := o.event
	switch {
	case id != "":
	case len(o.holders) > 0:
		id = event.InUse
	default:
		id = event.Refused
	}
	text := fmt.Sprintf("profile %s is not on the GPUs: %s", profile, o.failure.Text)
	r.log.With("run", o.restart.Run, "hint", o.failure.Hint).Error(runstate.WithHint(text, o.failure.Hint), "error", o.failure.Text, id.Attr())
}

// retryReserve logs why dcm-reserve.service has to run again.
func (r *reporter) retryReserve(e *runstate.Error) {
	if r.failure == e.Text {
		return
	}
	r.failure = e.Text
	r.log.Error(e.Message(), "error", e.Text, "hint", e.Hint, event.RunFailed.Attr())
}

// withWithdrawal adds to a permanent failure of the selected profile how to withdraw the selection.
func withWithdrawal(e *runstate.Error, s Settings) *runstate.Error {
	if e.Transient || !s.Selected || strings.Contains(e.Hint, runstate.Withdraw) {
		return e
	}
	failure := *e
	if failure.Hint != "" {
		failure.Hint = strings.TrimSuffix(failure.Hint, ".") + "; "
	}
	failure.Hint += runstate.Withdrawal(s.UntilReboot, s.Source)
	return &failure
}

// passLog is the log of a pass. After a run its entries have the ID of the run.
type passLog struct{ *slog.Logger }

func (l *passLog) included(units []string) {
	l.Info(fmt.Sprintf("%s: uses a GPU, and is a client until the next boot", strings.Join(units, ", ")))
}

// restarting names the units that a transaction stops and starts.
func (l *passLog) restarting(unit string, stopped []systemd.Unit) {
	if len(stopped) == 0 {
		l.Info("restarting " + unit + "; no client is active")
		return
	}
	l.Info(fmt.Sprintf("restarting %s, and with it %s", unit, strings.Join(ids(stopped), ", ")))
}

// ended logs the end of a run.
func (l *passLog) ended(name string, unit systemd.Unit, took time.Duration) {
	l.Logger = l.With("run", unit.Invocation)
	took = took.Round(time.Millisecond)
	l.Info(fmt.Sprintf("%s has ended after %s: %s", name, took, unit.Result), "unit", name, "result", unit.Result, "took", took)
}

// compared logs a client that is not back.
func (l *passLog) compared(c runstate.Client) {
	if !c.Back {
		l.Error(fmt.Sprintf("%s is not back: it was %s and is %s", c.Unit, c.Before, c.Now),
			"unit", c.Unit, "before", c.Before, "now", c.Now, "result", c.Result, "restarts", c.Restarts, event.ClientNotBack.Attr())
	}
}
