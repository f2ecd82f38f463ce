package daemon

import (
	"context"

	"dcm/internal/engine/runstate"
)

// Request asks the daemon to look at the configuration and the GPUs, and to do what
// is to be done. It is answered with the daemon's state once the daemon has come to
// rest after it; not at all if the daemon ends before.
type Request struct {
	Asked runstate.Asked
	Done  chan<- runstate.State // of 1: the daemon does not wait for it to be taken
}

// asked begins a look, or has one begun when the present one is over.
func (l *loop) asked(ctx context.Context, r Request) {
	l.requests = append(l.requests, r)
	l.because(r.Asked)
	l.word = true
	l.look(ctx, r.Asked.Why)
}

// reply answers every request: no pass is under way, and the last one began after
// they came in.
func (l *loop) reply() {
	for _, r := range l.requests {
		r.Done <- l.state
	}
	l.requests = nil
}

// because notes what the next pass is for. Of several reasons the one with a person
// behind it is told, and else the first.
func (l *loop) because(a runstate.Asked) {
	if a.Why != "" && (l.why.Why == "" || l.why.Who == nil && a.Who != nil) {
		l.why = a
	}
}

// reason returns what the pass that begins is for. One that tries again is for what
// the first one was for.
func (l *loop) reason() runstate.Asked {
	why := l.why
	l.why = runstate.Asked{}
	switch {
	case why.Why != "":
		l.first = why
	case l.first.Why != "":
		why = runstate.Asked{Why: "trying again: " + l.first.Why, Who: l.first.Who}
	default:
		why.Why = "trying again"
	}
	return why
}
