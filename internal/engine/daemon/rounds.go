package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// If budgets limit how many units may be down, a change of several GPUs is made in rounds. Each round
// is one run of dcm-change.service for the GPUs whose units the budgets permit to stop. A later pass makes
// the next round, when these units have been active for the settle time. Nothing about the progress is
// stored: the GPUs that still differ from the profile are those of later rounds.

// limits are what a round of a change must keep.
type limits struct {
	budgets []Budget
	settle  time.Duration
	single  bool                // one GPU in a round, or GPUs that share a client
	failed  []partition.Address // GPUs of the last round, if it failed: no other GPU changes before
}

func (l limits) none() bool { return len(l.budgets) == 0 && !l.single }

// availability is which units are down.
type availability struct {
	down    map[string]string        // why, by unit
	states  map[string]string        // their ActiveState
	settles map[string]time.Duration // of the active ones among them: the time until they count as up
}

// nextRound is the next round of a change, or why it does not begin now.
type nextRound struct {
	gpus     []partition.Address // of the round
	waits    *runstate.Error     // no round begins before the units in down change
	pause    time.Duration       // no round begins before this time, since units were started shortly before
	down     map[string]string   // the ActiveState of units that are down
	progress *runstate.Progress  // before the round
}

// selection reads what the choice of a round depends on.
func (l limits) selection(ctx context.Context, pid1 PID1, c chosen, pending pendingStarts) (selection, availability, error) {
	parts, err := l.parts(ctx, pid1, c, pending)
	if err != nil {
		return selection{}, availability{}, err
	}
	now, err := l.available(ctx, pid1.Availability, c.settings.Order.Clients, pending)
	if err != nil {
		return selection{}, availability{}, fmt.Errorf("cannot determine which units are down: %w", err)
	}
	return selection{parts: parts, budgets: l.budgets, down: now.down, single: l.single}, now, nil
}

// plan returns the next round of a change.
func (l limits) plan(ctx context.Context, pid1 PID1, c chosen, pending pendingStarts) (nextRound, error) {
	s, now, err := l.selection(ctx, pid1, c, pending)
	if err != nil {
		return nextRound{}, err
	}
	out := nextRound{progress: c.scope.progress(), down: now.states}
	round := s.next()
	for _, p := range round {
		out.gpus = append(out.gpus, p.gpus...)
	}
	if len(round) == 0 {
		out.pause, out.waits = l.why(s, now)
	}
	return out, nil
}

// parts returns the GPUs of a change in the parts that can change separately. All GPUs are one part if
// they change together.
func (l limits) parts(ctx context.Context, pid1 PID1, c chosen, pending pendingStarts) ([]part, error) {
	if c.scope == nil || c.scope.Part == nil {
		whole := part{units: append(ids(c.restart.stopped), pending.withheld(c.settings, c.restart)...)}
		if c.scope != nil {
			whole.gpus = c.scope.GPUs
		}
		return []part{whole}, nil
	}
	clients, err := listClients(ctx, pid1, c.settings.Order.Clients)
	if err != nil {
		return nil, err
	}
	gpus := slices.Sorted(slices.Values(c.scope.GPUs))
	if retried := slices.DeleteFunc(slices.Clone(gpus), func(a partition.Address) bool { return !slices.Contains(l.failed, a) }); len(retried) > 0 {
		gpus = retried
	}
	var parts []part
	for _, gpu := range gpus {
		one, blocking := c.scope.Part([]partition.Address{gpu}, c.blocking)
		r, err := restartPart(ctx, pid1, clients, one, blocking)
		if err != nil {
			return nil, err
		}
		starts := pending.withheld(c.settings, r)
		parts = append(parts, part{gpus: []partition.Address{gpu}, units: append(ids(r.stopped), starts...), starts: starts})
	}
	return merge(parts, l.budgets, c.scope.Known), nil
}

// failedGPUs returns the GPUs of the last round if it failed.
func (f failures) failedGPUs() []partition.Address {
	if f.change == nil {
		return nil
	}
	return f.change.GPUs
}

// progress returns how many GPUs of the profile match it.
func (s *Scope) progress() *runstate.Progress {
	if s == nil || s.Total == 0 {
		return nil
	}
	return &runstate.Progress{Done: s.Total - len(s.GPUs), Total: s.Total}
}

// available reads which units are down: those of the budgets, and all clients if one part changes at a
// time.
func (l limits) available(ctx context.Context, units AvailabilityReader, clients []string, pending pendingStarts) (availability, error) {
	var patterns []string
	for _, b := range l.budgets {
		patterns = append(patterns, b.Units...)
	}
	if l.single {
		for _, c := range clients {
			patterns = append(patterns, strings.Replace(c, "@.", "@*.", 1))
		}
	}
	found, err := units.Availability(ctx, patterns)
	out := availability{make(map[string]string), make(map[string]string), make(map[string]time.Duration)}
	for _, u := range found {
		_, owed := pending[u.ID]
		if why := whyDown(u, owed, l.settle); why != "" {
			out.down[u.ID], out.states[u.ID] = why, u.Active
			if u.Active == "active" && !u.Job {
				out.settles[u.ID] = l.settle - u.ActiveFor
			}
		}
	}
	return out, err
}

// whyDown returns why a unit counts as down, "" if it is up or nothing wants it to run. owed reports that
// dcm has stopped it and has to start it again.
func whyDown(u systemd.Availability, owed bool, settle time.Duration) string {
	switch {
	case u.Job:
		return u.Active + ", with a job"
	case u.Active == "active" && u.ActiveFor < settle:
		return fmt.Sprintf("active for %s only", u.ActiveFor.Round(time.Second))
	case u.Active == "active", u.Active == "reloading", u.Active == "refreshing":
		return ""
	case u.Active != "inactive":
		return u.Active
	case owed:
		return "stopped by a change that failed"
	case u.WantedBy != "":
		return "inactive, but " + u.WantedBy + " wants it"
	}
	return ""
}

// why returns why no part can change now: for how long the units have to settle, or which units
// are down otherwise.
func (l limits) why(s selection, now availability) (time.Duration, *runstate.Error) {
	if p, b := s.impossible(); p != nil {
		return 0, tooLarge(*p, *b)
	}
	settled := s
	settled.down = make(map[string]string)
	pause := time.Duration(0)
	for unit, why := range s.down {
		left, settling := now.settles[unit]
		if !settling {
			settled.down[unit] = why
		} else if pause == 0 || left < pause {
			pause = left
		}
	}
	if len(settled.next()) > 0 {
		return max(pause, time.Millisecond), nil
	}
	return 0, l.refuse(s)
}

// tooLarge is the error of a part that exceeds a budget even if all units are up.
func tooLarge(p part, b Budget) *runstate.Error {
	stops := len(selection{down: asDown(p.units)}.downOf(b))
	if len(p.gpus) == 0 {
		return &runstate.Error{
			Text: fmt.Sprintf("%s: the change concerns all GPUs and stops %d of these units (max-down is %d)", b, stops, b.MaxDown),
			Hint: "dcm apply --ignore-budget makes the change now",
		}
	}
	return &runstate.Error{
		Text: fmt.Sprintf("%s: a change of %s stops %d of these units (max-down is %d)", b, join(p.gpus), stops, b.MaxDown),
		Hint: `set unit-of-change = "gpu", and the gpus of each client in its [[client]] table; or dcm apply --ignore-budget makes the change now`,
	}
}

func asDown(units []string) map[string]string {
	out := make(map[string]string)
	for _, u := range units {
		out[u] = ""
	}
	return out
}

// refuse is the error of a change that waits for units that are down.
func (l limits) refuse(s selection) *runstate.Error {
	e := &runstate.Error{Transient: true, Hint: "repair and start these units, or disable them; dcm continues when they have been active for " + l.settle.String()}
	for _, p := range s.parts {
		if b := s.exceeded(p.units); b != nil {
			e.Text = fmt.Sprintf("%s: max-down is %d, and these units are down: %s", b, b.MaxDown, reasons(s.downOf(*b)))
			return e
		}
	}
	e.Text = "one GPU changes at a time, and these clients are down: " + reasons(s.down)
	return e
}

func join(gpus []partition.Address) string {
	out := make([]string, len(gpus))
	for i, a := range gpus {
		out[i] = string(a)
	}
	return strings.Join(out, ", ")
}

// limits returns what the rounds of a pass must keep.
func (p *pass) limits() limits {
	l := limits{settle: p.settings.SettleTime, failed: p.failures.failedGPUs()}
	if !p.asked.IgnoreBudget {
		l.budgets = p.settings.Budgets
		l.single = p.asked.Rolling
	}
	return l
}

// separable returns an error if one GPU has to change after the other, and the change cannot be made so.
func (l limits) separable(s *Scope) *runstate.Error {
	if !l.single || s != nil && s.repeats {
		return nil
	}
	return s.Inseparable()
}

// Inseparable returns an error if the GPUs of a change cannot change one after another. A nil scope is the whole node.
func (s *Scope) Inseparable() *runstate.Error {
	switch {
	case s == nil:
		return &runstate.Error{Text: "the change concerns all GPUs, and cannot be made one GPU after another", Hint: "dcm apply PROFILE makes it for all GPUs together"}
	case s.Part == nil:
		return &runstate.Error{Text: "all GPUs of a change succeed or fail together, so it cannot be made one GPU after another",
			Hint: `set unit-of-change = "gpu" and on-failure = "rollback" in [apply]`}
	}
	return nil
}

// narrow reduces a chosen restart to the next round. If the round cannot begin now, it returns the
// result of the pass.
func (p *pass) narrow(ctx context.Context, pid1 PID1, c *chosen) (r result, waits bool, err error) {
	l := p.limits()
	if l.none() || p.GPUs.DriverUnloaded() {
		return result{}, false, nil
	}
	if no := l.separable(c.scope); no != nil {
		return result{failure: no}, true, nil
	}
	next, err := l.plan(ctx, pid1, *c, p.starts.pending)
	switch {
	case err != nil:
		return result{}, false, err
	case next.waits != nil:
		return result{failure: next.waits, down: next.down, progress: next.progress}, true, nil
	case next.pause > 0:
		return result{pause: next.pause, progress: next.progress}, true, nil
	case c.scope == nil:
		return result{}, false, nil
	}
	if err := c.limit(ctx, pid1, next.gpus); err != nil {
		return result{}, false, err
	}
	left, err := c.blockers.remaining(ctx, c.blocking)
	if err != nil || len(left) == 0 {
		return result{}, false, err
	}
	return c.refuse(left), true, nil
}

// limit reduces a chosen restart to some GPUs of its scope.
func (c *chosen) limit(ctx context.Context, pid1 PID1, gpus []partition.Address) error {
	all := c.scope
	if all.Part != nil {
		c.scope, c.blocking = all.Part(gpus, c.blocking)
	}
	clients, err := listClients(ctx, pid1, c.settings.Order.Clients)
	if err != nil {
		return err
	}
	if c.restart, err = restartPart(ctx, pid1, clients, c.scope, c.blocking); err != nil {
		return err
	}
	later := slices.DeleteFunc(slices.Concat(all.GPUs, all.others, c.leaves), func(a partition.Address) bool { return slices.Contains(gpus, a) })
	if c.restart.change.Later = slices.Compact(slices.Sorted(slices.Values(later))); all.Total > 0 {
		c.restart.progress = &runstate.Progress{Done: all.Total - len(c.restart.change.Later) - len(gpus), Total: all.Total}
	}
	return nil
}

// isRound reports whether later rounds follow the restart.
func (r restart) isRound() bool { return r.change != nil && len(r.change.Later) > 0 }

// republish returns the scope of the last round, whose run was killed before it published the partitions.
// The GPUs of now that differ from the profile change in later rounds. It is nil if the last run was no
// change of single GPUs. It concerns the clients that the run has stopped, and those that are withheld for its GPUs.
func (f failures) republish(now *Scope, withheld map[string][]partition.Address) *Scope {
	if f.change == nil {
		return nil
	}
	out := &Scope{GPUs: f.change.GPUs, repeats: true, Concerning: func(unit string) []partition.Address {
		if _, stopped := f.change.Stopped[unit]; stopped {
			return f.change.GPUs
		}
		own := withheld[withheldFor(unit, withheld)]
		return slices.DeleteFunc(slices.Clone(f.change.GPUs), func(a partition.Address) bool { return !slices.Contains(own, a) })
	}}
	if now != nil {
		out.others, out.Total = now.GPUs, now.Total
	}
	return out
}
