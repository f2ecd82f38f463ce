package daemon

import (
	"context"

	"dcm/internal/report"
)

// Request asks the daemon to look at the configuration and the GPUs, and to do what
// is to be done. It is answered with the daemon's state once the daemon has come to
// rest after it; not at all if the daemon ends before.
type Request struct {
	Why  string
	Done chan<- report.State // of 1: the daemon does not wait for it to be taken
}

// asked begins a look, or has one begun when the present one is over.
func (l *loop) asked(ctx context.Context, r Request) {
	l.requests = append(l.requests, r)
	l.look(ctx, r.Why)
}

// reply answers every request: no pass is under way, and the last one began after
// they came in.
func (l *loop) reply() {
	for _, r := range l.requests {
		r.Done <- l.state
	}
	l.requests = nil
}
