package daemon

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/engine/runstate"
)

// A run that was answered that the GPUs are in use, and saw nobody who uses them, has
// stopped the clients in vain; so would the next one. No other one is made until
// something has changed: the driver counts fewer uses that are nobody's, the settings
// ask for something else, or an administrator asks. What was counted then is in the
// state, and outlives the daemon there.

// hidden returns the use that no restart of the clients would end, nil where there is
// none or a try is due all the same.
func (l *loop) hidden(ctx context.Context) *runstate.Use {
	if l.state.Unseen == nil || l.state.Wish != l.settings.sum() || l.word {
		return nil
	}
	if !l.started && !l.restarted(ctx) {
		return nil // somebody has started the daemon
	}
	return l.state.Unseen
}

// remain notes what the run that a pass has made could not see, and forgets it when
// one was made that is not to blame on that.
func (l *loop) remain(o result) {
	switch {
	case o.failure == nil:
		l.state.Unseen = nil
	case o.clients != nil:
		l.state.Unseen = o.failure.Unseen
	}
}

// hiding is the result where a restart of the clients would be in vain.
func (p *pass) hiding(ctx context.Context) (result, bool) {
	if p.hidden == nil {
		return result{}, false
	}
	now, err := p.GPUs.Use(ctx)
	if err != nil {
		return transient(err), true
	}
	if p.hidden.Eased(now) {
		return result{}, false
	}
	text := "something that cannot be seen holds the driver"
	if p.hidden.Unseen > 0 {
		text += fmt.Sprintf(" (%d of its use count)", p.hidden.Unseen)
	}
	return result{failure: &runstate.Error{
		Text:      text + ", and no client is restarted in vain for it",
		Cure:      "`dcm holders` shows what can be seen; end what holds the driver, or reboot. dcm goes on when its use count falls, when the configuration changes, and at `dcm apply`",
		Transient: true, Unseen: p.hidden,
	}}, true
}

// ease wakes the loop when less of the driver's use is nobody's, but not before the
// wait is over: a count that goes up and down must not bounce the clients with it.
func (l *loop) ease(ctx context.Context, wait time.Duration, use runstate.Use) {
	l.retry, l.state.Retry = nil, time.Time{}
	ctx, l.stop = context.WithCancel(ctx)
	go func() {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if l.GPUs.Eased(ctx, use) == nil {
			select {
			case l.freed <- struct{}{}:
			default: // the loop is already to be woken
			}
		}
	}()
}
