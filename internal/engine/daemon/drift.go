package daemon

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
)

// calm is how long the GPUs must have been left alone after a repair for the next
// one to be made at once. Two programs that each put back what they want would
// otherwise bounce the clients without end.
const calm = 10 * time.Minute

// drift is the loop's memory of what happens behind dcm's back.
type drift struct {
	stirred  bool      // devices told of something while a pass was under way
	seen     string    // the GPUs as the last pass saw them; "" if they may be otherwise by now
	repairs  int       // in a row, without calm between them
	repaired time.Time // when the last of them was made
	held     bool      // the next try is a repair that was put off
	glanced  string    // see GPUs.Glance
}

// glance looks at what no device tells of, whenever the daemon wakes up anyway.
func (l *loop) glance(ctx context.Context) {
	if now := l.GPUs.Glance(); now != l.glanced {
		l.glanced = now
		l.onDeviceEvent(ctx)
	}
}

// onDeviceEvent looks whether the GPUs are still as the last pass left them.
//
// What dcm does makes devices tell of it too, and so does a run that fails. So the
// settings are not read again, a try that is due stays due, and nothing follows
// if the GPUs are what they were.
func (l *loop) onDeviceEvent(ctx context.Context) {
	if l.pass != nil {
		l.stirred = true
		return
	}
	l.stirred = false
	watched := l.state.Phase == runstate.InSync || l.state.Phase == runstate.Drifted
	ignored := !l.settings.Selected || l.settings.LeaveDrift && !watched
	if !l.started || ignored && !l.GPUs.Left() {
		return
	}
	if time.Since(l.repaired) > calm {
		l.repairs = 0
	}
	p := l.newPass()
	p.stirred, p.seen, p.hold = true, l.seen, l.repairs > 0
	p.asked = runstate.Asked{Why: "somebody else has changed the GPUs"}
	l.run(ctx, p)
}

// drifted enters the phase of a host whose GPUs are left as somebody made them.
func (l *loop) drifted(o result) {
	l.Log.Warn(o.drift.Text, "error", o.drift.Text, "cure", o.drift.Cure, event.Drifted.Attr())
	l.enter(runstate.Drifted, o.drift)
}

// countRepair counts repairs.
func (l *loop) countRepair(o result) {
	if (o.stirred || l.held) && o.clients != nil {
		l.repairs++
		l.repaired = time.Now()
	}
	l.held = false
}

// delayRepair has the next repair wait, each time for longer.
func (l *loop) delayRepair() {
	l.held = true
	l.failures = max(l.failures, l.repairs-1)
}

// unchanged tells that the GPUs are as the last pass left them. In the middle of a
// run that somebody else has begun nobody can say.
func (p *pass) unchanged(now string) bool {
	if busy, err := p.Busy(); busy || err != nil || now != p.seen {
		return false
	}
	return true
}

// remember returns what the next stirred pass compares the GPUs with. It is what was
// planned for, so that no change slips in between. After a run that is of no use: a
// success needs no memory, the next look is a full one; but what a failed run left
// must not look like something new.
func (p *pass) remember(ctx context.Context, o result) string {
	switch {
	case o.clients == nil:
		return p.looked
	case o.failure == nil:
		return ""
	}
	return p.sum(ctx)
}

// sum is the GPUs in sum.
func (p *pass) sum(ctx context.Context) string {
	limit, cancel := context.WithTimeout(ctx, orDefault(p.settings.Timeout, defaultDevices))
	defer cancel()
	return p.GPUs.Seen(limit)
}

// found is the result of a look that was stirred and found steps to do. The
// second result tells that they are to be made.
func (p *pass) found(steps int) (result, bool) {
	away := fmt.Sprintf("the GPUs were changed by somebody else: they are %d steps away from profile %s", steps, p.settings.Profile.Name)
	switch {
	case p.settings.LeaveDrift:
		return result{drift: &runstate.Error{Text: away, Cure: driftCure}}, false
	case p.hold:
		text := away + ", again, and soon after they were repaired"
		return result{held: true, failure: &runstate.Error{Text: text, Cure: "find out what else sets modes on this host", Transient: true}}, false
	}
	p.Log.Warn(away, "error", away, event.Drifted.Attr())
	return result{}, true
}

const driftCure = `dcm plan shows the steps and dcm apply makes them; with drift = "repair" in [daemon] dcm does so by itself`
