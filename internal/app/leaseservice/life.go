package leaseservice

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/frontends/status"
	"dcm/internal/leases/lease"
)

// Where in its life a lease is when its counters are logged.
const (
	atStart = "start"
	atEnd   = "end"
)

// countDelay is how long after the start of a lease its counters are read. A shorter lease costs no reading, and has
// no counters.
const countDelay = time.Second

// life is a lease that has not ended.
type life struct {
	status.Lease
	count   *time.Timer   // reads the counters; nil if an earlier daemon has read them
	counted chan struct{} // closed when count has read them
	began   time.Time     // Since is later for a lease of an earlier daemon
	by      string        // the user who releases it; "" for none
}

// newLife returns the life of a lease that has started. It logs the counters after [countDelay].
func newLife(ctx context.Context, l status.Lease, record recorder) life {
	counted := make(chan struct{})
	count := time.AfterFunc(countDelay, func() {
		defer close(counted)
		record(context.WithoutCancel(ctx), l, atStart)
	})
	return life{Lease: l, count: count, counted: counted, began: l.Since}
}

// end logs the counters at the end of a lease, after those at its start.
func (l life) end(ctx context.Context, record recorder) {
	if l.count != nil {
		if l.count.Stop() {
			return
		}
		<-l.counted
	}
	record(ctx, l.Lease, atEnd)
}

// reason returns why a lease has ended: by whom it was released, by its time limit, or with its last process.
func (l life) reason(now time.Time) string {
	switch {
	case l.by != "":
		return "released by " + l.by
	case l.Until != nil && !now.Before(*l.Until):
		return "its time limit is over"
	}
	return "its last process has ended"
}

// untilNote returns the note with the time at which a lease ends.
func untilNote(now time.Time, l lease.Lease) string {
	layout := time.TimeOnly
	if l.Time >= 24*time.Hour {
		layout = time.DateTime
	}
	note := "lease until " + now.Add(l.Time).Format(layout)
	if l.TimeBy != "" {
		note += fmt.Sprintf(" (%s)", l.TimeBy)
	}
	return note
}
