package lease

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// OvertakeLimit limits how much later an earlier request starts because of leases that overtake it.
// It applies if the start of the earlier request cannot be predicted, because it needs partitions of
// a lease without a time limit. Then only leases with a time limit up to OvertakeLimit may overtake.
const OvertakeLimit = 15 * time.Minute

// candidate is a request that can start now.
type candidate struct {
	*pending
	snapshot Snapshot // without the lease that it replaces
	choice   placement.Choice
	before   string // the lease that it replaces, "" for none
}

// schedule decides which request of the queue may start at one moment.
type schedule struct {
	policy    *policy
	processes Processes
	snapshot  Snapshot
	now       time.Time
	terms     func() map[string]Term // of the leases in the snapshot
	rejoining bool                   // callers reconnect: no request that waits may start

	ahead  []*pending             // earlier requests that wait for partitions
	starts map[*pending]time.Time // earliest start of those in ahead, calculated when needed
	held   map[string]bool        // keys of limits that keep an earlier request from starting
}

// judge returns the lease that a request may start now, or an error that says why it cannot start.
func (s *schedule) judge(p *pending) (*candidate, error) {
	at := locate(s.processes, p.Caller)
	snapshot := at.excludeOwn(s.snapshot)
	choice, err := s.policy.choose(snapshot, p.Caller, p.Request)
	if err != nil { // a request that can start now is possible
		if never := s.policy.impossible(s.snapshot, p.Caller, p.Request, at); never != nil {
			return nil, never
		}
	}
	for _, b := range s.policy.bounds(p.Caller) {
		if s.held[b.key] {
			return nil, &InsufficientError{Err: fmt.Errorf("an earlier request waits for %s", b.name)}
		}
	}
	if err != nil && !p.Wait && s.endsSoon(p, at) {
		return nil, &endingError{err}
	}
	if limit, over := errors.AsType[*LimitError](err); over {
		s.held[limit.key] = true
		return nil, err
	}
	switch {
	case err != nil:
	case p.Wait && s.rejoining:
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
	return &candidate{p, snapshot, choice, at.replaced()}, nil
}

// endTimeout is how long a request without Wait waits for the ends of leases without processes, and of the cleaning of
// their partitions.
const endTimeout = 10 * time.Second

// endsSoon reports whether a request could start but for leases without processes: PID 1 removes a scope,
// dcm-make@.service an instance, and dcm-clean@.service cleans a partition, a moment after the last process has ended.
func (s *schedule) endsSoon(p *pending, at location) bool {
	if s.now.Sub(p.since) > endTimeout {
		return false
	}
	empty := make(map[string]bool)
	then := at.excludeOwn(s.snapshot).after(func(unit string) bool {
		if _, known := empty[unit]; !known {
			_, isLease := unitname.ParseLease(unit)
			empty[unit] = isLease && s.processes.Empty(unit)
		}
		return empty[unit]
	})
	then.Cleaning = then.Cleaning.ended()
	_, err := s.policy.choose(then, p.Caller, p.Request)
	return err == nil
}

// delays reports whether a lease that starts now might delay an earlier request. It cannot if the
// earlier request cannot use the partitions of the lease, if the lease ends before the predicted
// start of the earlier request, or if there will be enough partitions for both. If no start can be
// predicted, a lease up to [OvertakeLimit] counts as no delay.
func (s *schedule) delays(earlier, p *pending, c placement.Choice) bool {
	if !s.uses(earlier, p, c) {
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
	then = s.with(then, p, c)
	_, err := s.policy.choose(then, earlier.Caller, earlier.Request)
	return insufficient(err)
}

// uses reports whether a request could get one of the partitions of another one's choice.
func (s *schedule) uses(p *pending, by *pending, c placement.Choice) bool {
	modes := partition.IsMode(p.Make) || partition.IsMode(by.Make) // these use whole GPUs
	if !modes && (p.Make != "" || by.Make != "") {
		return p.Make != "" && by.Make != "" // other leases use no free slots
	}
	if modes {
		return s.mayMeet(p, by, c)
	}
	w := p.Want
	var err error
	w.Kinds, err = p.Sought.Match(KindsOf(s.snapshot.Parts))
	return err == nil && slices.ContainsFunc(c.Partitions, w.Permits)
}

// earliest returns when a request can start. It assumes that each lease ends at its time limit, and
// that leases without a limit never end. It returns the zero time if the request could never start. [Hours] that
// begin between two times at which it could start make the result later than the earliest one.
func (s *schedule) earliest(p *pending) time.Time {
	times := []time.Time{s.now}
	for _, t := range s.terms() {
		if end := t.Began.Add(t.Limit); t.Limit > 0 && end.After(s.now) {
			times = append(times, end)
		}
	}
	for _, h := range s.snapshot.Hours {
		times = append(times, changes(h.When, s.now)...)
	}
	slices.SortFunc(times, time.Time.Compare)
	i := sort.Search(len(times), func(i int) bool {
		_, err := s.policy.choose(s.at(times[i]), p.Caller, p.Request)
		return !insufficient(err)
	})
	if i == len(times) {
		return time.Time{}
	}
	return times[i]
}

// at returns the snapshot without the leases that have reached their time limits by then.
func (s *schedule) at(then time.Time) Snapshot {
	terms := s.terms()
	after := s.snapshot.after(func(unit string) bool {
		t := terms[unit]
		return t.Limit > 0 && !t.Began.Add(t.Limit).After(then)
	})
	after.At = then
	return after
}

// with returns the snapshot with the lease of a choice.
func (s *schedule) with(then Snapshot, p *pending, c placement.Choice) Snapshot {
	u := unitOf(p, c, then)
	then.Units = append(slices.Clone(then.Units), u)
	if p.Make == "" || partition.IsMode(p.Make) {
		return then
	}
	return then.withGPUs(func(g DynamicGPU) DynamicGPU {
		if m := instanceFor(u.Unit, p.Request, c); m.GPU == g.GPU {
			g.Made = append(slices.Clone(g.Made), m)
		}
		return g
	})
}

// unitOf returns the unit that a request would get.
func unitOf(p *pending, c placement.Choice, snapshot Snapshot) UnitDevices {
	u := UnitDevices{Unit: newName(p.UID, p.Request, snapshot), Active: true}
	for _, part := range c.Partitions {
		u.Allowed = append(u.Allowed, part.Render)
	}
	return u
}

// mayMeet is uses for requests of which at least one sets a compute mode. Such a request uses all
// partitions of a dynamic GPU.
func (s *schedule) mayMeet(p, by *pending, c placement.Choice) bool {
	gpus, err := s.snapshot.modeGPUs()
	dynamic := func(part runstate.Part) bool {
		return err != nil || slices.ContainsFunc(gpus, func(g DynamicGPU) bool { return g.GPU == part.GPU })
	}
	switch {
	case p.Make == "": // it may use the GPU at rest
		kinds, err := p.Sought.Match(KindsOf(s.snapshot.atRest().Parts))
		at := func(part runstate.Part) bool {
			return slices.ContainsFunc(c.Partitions, func(own runstate.Part) bool { return own.GPU == part.GPU }) && (kinds == nil || slices.Contains(kinds, part.Kind))
		}
		return err != nil || slices.ContainsFunc(s.snapshot.atRest().Parts, at)
	case !partition.IsMode(p.Make):
		return false // MIG instances are on other GPUs
	}
	return slices.ContainsFunc(c.Partitions, dynamic)
}
