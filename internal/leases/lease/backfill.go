package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/placement"
)

// OvertakeLimit is the longest lease that may start before an earlier request whose own
// start cannot be foreseen, because a lease without an end is in its way. The earlier
// request starts later by at most that.
const OvertakeLimit = 15 * time.Minute

// Term is how long a lease lasts.
type Term struct {
	Began time.Time
	Limit time.Duration // 0 for no limit
}

// candidate is a request that can start now.
type candidate struct {
	*pending
	facts  Snapshot // without the lease that it exchanges
	choice placement.Choice
	before string // that lease
}

// schedule is the queue at one moment. It decides what may start.
type schedule struct {
	keeper *Allocator
	facts  Snapshot
	now    time.Time
	terms  func() map[string]Term // of the leases there are
	ahead  []*pending             // that wait for partitions, and came earlier
	starts map[*pending]time.Time // of those, the earliest, as far as it was needed
	held   map[string]bool        // limits that an earlier request waits for, by key

	regroups bool // callers reconnect: no request that waits starts
}

// judge returns the first request of the queue that may start now, nil for none. It notes
// of the others why they wait, and refuses those that are impossible.
func (a *Allocator) judge(ctx context.Context, snapshot Snapshot, r round) *candidate {
	s := schedule{keeper: a, facts: snapshot, now: time.Now(), held: make(map[string]bool), starts: make(map[*pending]time.Time), terms: a.terms(ctx, snapshot), regroups: r.regroups}
	for _, p := range r.queue {
		c, err := s.judge(p)
		switch {
		case err == nil:
			return c
		case Passes(err):
			a.block(p, err)
		default:
			a.refuse(p, err)
		}
	}
	return nil
}

// judge judges one request.
func (s *schedule) judge(p *pending) (*candidate, error) {
	k, at := s.keeper, s.keeper.locate(p.Caller)
	if err := k.impossible(s.facts, p.Caller, p.Request, at); err != nil {
		return nil, err
	}
	for _, b := range k.bounds(p.Caller) {
		if s.held[b.key] {
			return nil, &InsufficientError{Err: fmt.Errorf("an earlier request waits for %s", b.name)}
		}
	}
	snapshot := at.excludeOwn(s.facts)
	choice, err := k.choose(snapshot, p.Caller, p.Request)
	if limit, over := errors.AsType[*LimitError](err); over {
		s.held[limit.key] = true
		return nil, err
	}
	switch {
	case err != nil:
	case p.Wait && s.regroups:
		err = &InsufficientError{Err: errors.New("earlier requests may come back after the restart of dcm")}
	case slices.ContainsFunc(s.ahead, func(earlier *pending) bool { return s.delays(earlier, p, choice) }):
		err = &InsufficientError{Err: errors.New("an earlier request in the queue would start later")}
	}
	if err != nil {
		if p.Wait {
			s.ahead = append(s.ahead, p)
		}
		return nil, err
	}
	return &candidate{p, snapshot, choice, at.exchanged()}, nil
}

// delays reports whether an earlier request might start later for a lease that starts now.
// It does not if it cannot use the lease's partitions, if the lease has ended by the time
// at which it can start, or if there is enough for both then. Where that time is not known
// the lease has to be shorter than [OvertakeLimit].
func (s *schedule) delays(earlier, p *pending, c placement.Choice) bool {
	if !s.uses(earlier, c) {
		return false
	}
	start, found := s.starts[earlier]
	if !found {
		start = s.earliest(earlier)
		s.starts[earlier] = start
	}
	if start.IsZero() {
		return p.Time == 0 || p.Time > OvertakeLimit
	}
	if p.Time > 0 && !s.now.Add(p.Time).After(start) {
		return false
	}
	then := s.at(start)
	then.Units = append(slices.Clone(then.Units), tenant(p, c, then))
	_, err := s.keeper.choose(then, earlier.Caller, earlier.Request)
	_, short := errors.AsType[*InsufficientError](err)
	return short
}

// uses reports whether a request could be given one of these partitions.
func (s *schedule) uses(p *pending, c placement.Choice) bool {
	kinds, err := p.Sought.Match(KindsOf(s.facts.Parts))
	return err == nil && slices.ContainsFunc(c.Partitions, func(part runstate.Part) bool {
		return kinds == nil || slices.Contains(kinds, part.Kind)
	})
}

// earliest returns when a request can start if each lease lasts as long as its limit, and
// one without a limit for ever; zero if it cannot then.
func (s *schedule) earliest(p *pending) time.Time {
	times := []time.Time{s.now}
	for _, t := range s.terms() {
		if end := t.Began.Add(t.Limit); t.Limit > 0 && end.After(s.now) {
			times = append(times, end)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	i := sort.Search(len(times), func(i int) bool {
		_, err := s.keeper.choose(s.at(times[i]), p.Caller, p.Request)
		_, short := errors.AsType[*InsufficientError](err)
		return !short
	})
	if i == len(times) {
		return time.Time{}
	}
	return times[i]
}

// at returns the facts with the leases ended whose limit is over by then.
func (s *schedule) at(then time.Time) Snapshot {
	over := make(map[string]bool)
	for unit, t := range s.terms() {
		over[unit] = t.Limit > 0 && !t.Began.Add(t.Limit).After(then)
	}
	return s.facts.after(func(unit string) bool { return over[unit] })
}

// after returns the facts as they are when some units have ended.
func (snapshot Snapshot) after(ended func(unit string) bool) Snapshot {
	snapshot.Units = slices.DeleteFunc(slices.Clone(snapshot.Units), func(t UnitDevices) bool { return ended(t.Unit) })
	open := make(map[string][]string)
	for part, users := range snapshot.Open {
		open[part] = slices.DeleteFunc(slices.Clone(users), ended)
	}
	snapshot.Open = open
	return snapshot
}

// tenant is the unit that a request would become.
func tenant(p *pending, c placement.Choice, snapshot Snapshot) UnitDevices {
	t := UnitDevices{Unit: name(p.UID, p.Request, snapshot).String(), Active: true}
	for _, part := range snapshot.Parts {
		if slices.ContainsFunc(c.Partitions, func(o runstate.Part) bool { return o.Name == part.Name }) {
			t.Allowed = append(t.Allowed, part.Render)
		}
	}
	return t
}

// terms returns a function that asks for the terms of all leases, once.
func (a *Allocator) terms(ctx context.Context, snapshot Snapshot) func() map[string]Term {
	var known map[string]Term
	return func() map[string]Term {
		if known != nil {
			return known
		}
		var units []string
		for _, t := range snapshot.Units {
			if _, ok := ParseName(t.Unit); ok {
				units = append(units, t.Unit)
			}
		}
		known = make(map[string]Term)
		if got, err := a.Host.Terms(ctx, units); err == nil { // otherwise none is known to end
			known = got
		}
		return known
	}
}

// Passes reports whether an error may be gone at another try.
func Passes(err error) bool {
	if _, impossible := errors.AsType[*ImpossibleError](err); impossible {
		return false
	}
	_, short := errors.AsType[*InsufficientError](err)
	_, limit := errors.AsType[*LimitError](err)
	return short || limit || errors.Is(err, ErrChanging) || errors.Is(err, ErrNotMoved)
}
