package daemon

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// failures are the attempts since the last success.
type failures struct {
	attempts    int
	lastAttempt time.Time
	final       *runstate.Error  // why another attempt with these settings would fail too
	last        *runstate.Error  // of the last attempt, if it was recorded
	change      *runstate.Change // of the last attempt, if it was one of single GPUs for these settings
	fresh       bool             // this daemon has made no attempt yet
	lastPass    bool             // the last pass has failed
}

// failuresIn returns the failures in the current state and in the state that the previous daemon
// saved.
func failuresIn(now, previous runstate.State, settings Settings) failures {
	f := failures{attempts: now.Tries, lastAttempt: now.Tried, last: previous.Error, lastPass: now.Error != nil}
	if now.Tries > 0 && now.Wish != "" && now.Wish == settings.hash() {
		f.change = now.Change
	}
	if e := previous.Error; e != nil && !e.Transient && now.Wish != "" && now.Wish == settings.hash() {
		f.final = e
	}
	return f
}

// throttle returns the result if systemd has restarted the daemon and the daemon must not restart
// the clients. If the previous daemon found that no attempt can succeed, it never restarts them. If
// that daemon failed or was killed during an attempt, it waits for the end of the back-off.
func (f failures) throttle(ctx context.Context, u UnitReader, retry Backoff, driverUnloaded func() bool) (r result, throttled bool, err error) {
	if !f.fresh || f.attempts == 0 {
		return result{}, false, nil
	}
	own, err := u.List(ctx, []string{unitname.Daemon}, systemd.All)
	if err != nil || len(own) == 0 || own[0].Restarts == 0 {
		return result{}, false, err
	}
	if f.final != nil && !driverUnloaded() {
		return result{failure: f.final}, true, nil
	}
	wait := time.Until(f.lastAttempt.Add(retry.After(f.attempts)))
	if wait <= 0 {
		return result{}, false, nil
	}
	failure := f.last
	if failure == nil {
		failure = &runstate.Error{Text: fmt.Sprintf("the run that began at %s was interrupted", f.lastAttempt.Format(time.TimeOnly)), Transient: true}
	}
	return result{failure: failure, throttle: wait}, true, nil
}

// unseenHolder returns the result if a restart of the clients would not free the driver. before is
// the use by invisible holders that the last run found; nil means none. found is false if a restart
// may help.
func unseenHolder(ctx context.Context, gpus UseWatcher, before *runstate.Use) (r result, found bool) {
	if before == nil {
		return result{}, false
	}
	now, err := gpus.Use(ctx, *before)
	if err != nil {
		return transient(err), true
	}
	if before.Eased(now) {
		return result{}, false
	}
	text := "something that cannot be seen holds the driver"
	if before.Unseen > 0 {
		text += fmt.Sprintf(" (%d of its use count)", before.Unseen)
	}
	return result{failure: &runstate.Error{
		Text:      text + "; no client is restarted for it",
		Hint:      "'dcm holders' shows the visible holders; stop what uses the driver, or reboot. dcm tries again when the use count falls, when the configuration changes, and at 'dcm apply'",
		Transient: true, Unseen: before,
	}}, true
}
