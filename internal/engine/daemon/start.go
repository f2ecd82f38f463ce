package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// A start that an administrator asked for fails with the reason. systemd makes the
// next one by itself, within RestartSec=, and that one comes up whatever the verdict:
// a daemon that is not there waits for nothing. So the back-off is the daemon's own,
// and what it goes by outlives the daemon in its state.

// askTimeout is for asking PID 1 of the daemon's own unit.
const askTimeout = 5 * time.Second

// start reads the configuration and begins the first look.
func (l *loop) start(ctx context.Context) error {
	if err := l.configure(ctx); err != nil {
		failure := &runstate.Error{Text: err.Error()}
		if !l.restarted(ctx) {
			l.fail(runstate.Stuck, failure)
			return &ConfigError{err}
		}
		l.up()
		if s, err := l.LastGood(); err == nil {
			l.adopt(s)
		} else {
			l.enter(runstate.Stuck, failure)
		}
	}
	l.announce()
	l.because(l.Started)
	l.because(runstate.Asked{Why: "the daemon was started"})
	l.begin(ctx)
	return nil
}

// up notes that the daemon is up, which is said when all is written down.
func (l *loop) up() {
	if !l.started {
		l.started, l.reload = true, true
	}
}

// restarted tells whether systemd has started this daemon by itself, after one that
// failed or was killed. A start by hand resets systemd's count. Where PID 1 cannot
// be asked it was by hand: then the start fails, and the next one asks again.
func (l *loop) restarted(ctx context.Context) bool {
	if l.own == nil {
		l.own = &systemd.Unit{}
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if err := l.askOwn(ctx); err != nil {
			l.Log.Warn("cannot tell who has started the daemon", "error", err)
		}
	}
	return l.own.Restarts > 0
}

func (l *loop) askOwn(ctx context.Context) error {
	u, err := l.Dial(ctx)
	if err != nil {
		return err
	}
	units, err := u.Units(ctx, []string{unitname.Daemon})
	if err == nil && len(units) > 0 {
		l.own = &units[0]
	}
	if closed := u.Close(); err == nil {
		err = closed
	}
	return err
}

// reject tells of a configuration that cannot be used, once.
func (l *loop) reject(ctx context.Context, err error) {
	text := err.Error()
	told := l.state.Config == text && (l.started || l.last.Config == text && l.restarted(ctx))
	l.state.Config = text
	if !told {
		l.Log.Error(rejected(l.usable)+":\n"+text, "error", text, event.ConfigRejected.Attr())
	}
}

// intent is a run that is about to begin: what is owed if it fails. The pass goes on
// when that is written down.
type intent struct {
	unit    string // that is to be restarted
	owed    pendingStarts
	asked   runstate.Asked
	written chan error // of 1
}

// intend writes down what a run is about to do. Where that cannot be done nothing
// may be stopped: what is lost then would never be found.
func (l *loop) intend(i intent) error {
	before := l.state
	i.owed.into(&l.state)
	l.state.Tries++
	l.state.Tried, l.state.Wish = time.Now(), l.settings.sum()
	if i.unit == unitname.Apply { // no other one changes the GPUs
		l.state.Holders, l.state.Asked = nil, &i.asked
		l.enter(runstate.Applying, nil)
	}
	if err := l.publish(); err != nil {
		l.state = before
		return fmt.Errorf("no unit is stopped, since what is to be started again cannot be written down: %w", err)
	}
	return nil
}

// overtaken reads the edit that a run has found before the daemon did, so that what
// came of it is told of its own profile.
func (l *loop) overtaken(ctx context.Context) {
	before := l.settings
	_ = l.configure(ctx) // a bad one is told
	l.state.Wish = l.settings.sum()
	if before.same(l.settings) { // what the run has read is gone again
		l.due = lookAgain
	}
}

// sum is a text that is equal for settings that ask for the same.
func (s Settings) sum() string {
	text, err := json.Marshal(s.wish())
	if err != nil {
		return "" // equal to none
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// verdict is what is known of the runs that have failed since the last success.
type verdict struct {
	tries  int
	tried  time.Time       // when the last of them began
	final  *runstate.Error // why another one with these settings would be in vain
	failed *runstate.Error // why the last one failed, as far as that was told
	fresh  bool            // this daemon has made none yet
}

func (l *loop) verdict() verdict {
	v := verdict{tries: l.state.Tries, tried: l.state.Tried, fresh: !l.started, failed: l.last.Error}
	if e := l.last.Error; e != nil && !e.Transient && l.state.Wish != "" && l.state.Wish == l.settings.sum() {
		v.final = e
	}
	return v
}

// restartThrottle is the result where a run that would restart the clients is not to be made
// by a daemon that systemd has started again: not at all if the one before has found
// it to be in vain, and not before its time if that was killed in it or failed.
func (p *pass) restartThrottle(ctx context.Context, u Units) (result, bool, error) {
	v := p.last
	if !v.fresh || v.tries == 0 {
		return result{}, false, nil
	}
	own, err := u.Units(ctx, []string{unitname.Daemon})
	if err != nil || len(own) == 0 || own[0].Restarts == 0 {
		return result{}, false, err
	}
	if v.final != nil && !p.GPUs.Left() {
		return result{failure: v.final}, true, nil
	}
	wait := time.Until(v.tried.Add(p.Limits.Retry.After(v.tries)))
	if wait <= 0 {
		return result{}, false, nil
	}
	failure := v.failed
	if failure == nil {
		failure = &runstate.Error{Text: fmt.Sprintf("the run that began at %s did not come to its end", v.tried.Format(time.TimeOnly)), Transient: true}
	}
	return result{failure: failure, spared: wait}, true, nil
}
