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
	final       *runstate.Error // why another attempt with these settings would fail too
	last        *runstate.Error // of the last attempt, if it was recorded
	fresh       bool            // this daemon has made no attempt yet
	lastPass    bool            // the last pass has failed
}

// failuresIn reads them from the state, and from the state that the daemon before this one left.
func failuresIn(now, previous runstate.State, settings Settings) failures {
	f := failures{attempts: now.Tries, lastAttempt: now.Tried, last: previous.Error, lastPass: now.Error != nil}
	if e := previous.Error; e != nil && !e.Transient && now.Wish != "" && now.Wish == settings.hash() {
		f.final = e
	}
	return f
}

// throttle is the result if a daemon that systemd has started again must not restart the
// clients: never, if the daemon before it found that no attempt can succeed; not before the
// back-off is over, if that daemon failed or was killed in the attempt.
func (p *pass) throttle(ctx context.Context, u *Units) (r result, throttled bool, err error) {
	f := p.failures
	if !f.fresh || f.attempts == 0 {
		return result{}, false, nil
	}
	own, err := u.List(ctx, []string{unitname.Daemon}, systemd.All)
	if err != nil || len(own) == 0 || own[0].Restarts == 0 {
		return result{}, false, err
	}
	if f.final != nil && !p.GPUs.DriverUnloaded() {
		return result{failure: f.final}, true, nil
	}
	wait := time.Until(f.lastAttempt.Add(p.Limits.Retry.After(f.attempts)))
	if wait <= 0 {
		return result{}, false, nil
	}
	failure := f.last
	if failure == nil {
		failure = &runstate.Error{Text: fmt.Sprintf("the run that began at %s did not come to its end", f.lastAttempt.Format(time.TimeOnly)), Transient: true}
	}
	return result{failure: failure, throttle: wait}, true, nil
}

// unpublished reports whether a run has changed the GPUs and was killed before it published
// their partitions. Units with reservations have the old ones then.
func (p *pass) unpublished(now Observation) bool {
	return !p.byDevice && p.failures.attempts > 0 && now.Published != nil && !now.Published()
}

// unseenHolder is the result if a restart of the clients would not free the driver.
func (p *pass) unseenHolder(ctx context.Context) (r result, found bool) {
	if p.unseen == nil {
		return result{}, false
	}
	now, err := p.GPUs.Use(ctx, *p.unseen)
	if err != nil {
		return transient(err), true
	}
	if p.unseen.Eased(now) {
		return result{}, false
	}
	text := "something that cannot be seen holds the driver"
	if p.unseen.Unseen > 0 {
		text += fmt.Sprintf(" (%d of its use count)", p.unseen.Unseen)
	}
	return result{failure: &runstate.Error{
		Text:      text + ", and no client is restarted in vain for it",
		Hint:      "`dcm holders` shows what can be seen; end what holds the driver, or reboot. dcm goes on when its use count falls, when the configuration changes, and at `dcm apply`",
		Transient: true, Unseen: p.unseen,
	}}, true
}
