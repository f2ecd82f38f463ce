package daemon

import "dcm/internal/engine/runstate"

// Request makes the daemon compare the GPUs with the configuration and apply the profile if they
// differ. The answer is the daemon's state when no pass is under way any more. If the daemon ends
// before, there is no answer.
type Request struct {
	Asked runstate.Asked
	Done  chan<- runstate.State // buffered (size 1), so that the daemon does not wait for the receiver
}

// requests are the reasons for the next pass, and the callers that wait for its result.
type requests struct {
	waiting []Request
	forced  bool           // an administrator has requested the next pass
	next    runstate.Asked // zero for a retry
	first   runstate.Asked // the reason of the last pass that was no retry
}

// add records a request for the next pass.
func (q *requests) add(r Request) {
	q.wait(r)
	q.note(r.Asked)
	q.forced = true
}

// wait records a request that the pass under way answers.
func (q *requests) wait(r Request) { q.waiting = append(q.waiting, r) }

// began reports whether that process has begun the last pass that was no retry.
func (q *requests) began(who *runstate.Who) bool {
	return q.first.Who.SameProcess(who)
}

// note records a reason for the next pass. Of several reasons, the first with a user is kept, else
// the first.
func (q *requests) note(a runstate.Asked) {
	if a.Why != "" && (q.next.Why == "" || q.next.Who == nil && a.Who != nil) {
		q.next = a
	}
}

// take returns the reason of the pass that begins. A retry, and a later round of a change, have the reason
// of the first attempt.
func (q *requests) take(round bool) runstate.Asked {
	why := q.next
	q.next = runstate.Asked{}
	switch {
	case why.Why != "":
		q.first = why
	case q.first.Why != "":
		if why = q.first; !round {
			why.Why = "trying again: " + why.Why
		}
	default:
		why.Why = "trying again"
	}
	return why
}

// answer answers all requests. It is called when no pass is under way, and the last one began
// after they arrived.
func (q *requests) answer(s runstate.State) {
	for _, r := range q.waiting {
		r.Done <- s
	}
	q.waiting = nil
}
