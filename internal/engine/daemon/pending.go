package daemon

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// If a run fails in the middle of a driver reload, systemd starts the clients without a device.
// They fail, or exit, or are skipped by a condition of their own, or a unit that they require
// has failed. With require = true their start jobs fail with the run. The run that succeeds
// later restarts active units only. So the units that a run stops are pending starts: the daemon
// saves them before the run, and starts those that are missing when the profile is on the GPUs.
// PID 1 knows which of them were stopped by an administrator meanwhile; those are not missing.

// pendingStarts are units that were up when a run stopped them, with their invocations at that
// time; "" if it is not known.
type pendingStarts map[string]string

func pendingIn(s runstate.State) pendingStarts {
	d := make(pendingStarts, len(s.Owed))
	for _, name := range s.Owed {
		d[name] = s.OwedRuns[name]
	}
	return d
}

func (p pendingStarts) into(s *runstate.State) {
	s.Owed, s.OwedRuns = p.names(), maps.Clone(p)
	if len(p) == 0 {
		s.Owed, s.OwedRuns = nil, nil
	}
}

func (p pendingStarts) names() []string { return slices.Sorted(maps.Keys(p)) }

// plus returns the pending starts if a run that stops these units fails.
func (p pendingStarts) plus(stopped []systemd.Unit) pendingStarts {
	all := maps.Clone(p)
	if all == nil {
		all = make(pendingStarts)
	}
	for _, u := range stopped {
		all[u.ID] = u.Invocation
	}
	return all
}

// These precede the invocation of a unit that was down after a run and that no administrator had
// stopped. PID 1 knows only the last start and stop of other units, so this is not known later.
const (
	leftDown         = "left down:"  // by a run that failed
	dependencyFailed = "dependency:" // a unit that it requires failed first, and systemd started that one again
)

// reason returns why the unit has a pending start.
func (p pendingStarts) reason(unit string) string {
	if strings.HasPrefix(p[unit], dependencyFailed) {
		return "whose dependency failed at its first start and runs now"
	}
	return "which a failed run left down"
}

// invocation returns the last known invocation of the unit.
func (p pendingStarts) invocation(unit string) string {
	return strings.TrimPrefix(strings.TrimPrefix(p[unit], leftDown), dependencyFailed)
}

// fell reports whether a unit has ended, also if systemd starts it again.
func fell(u systemd.Unit) bool { return u.Restarting() || !u.Up() && u.Settled() }

// mark records which of the units that [fell] a run has left down. Those that systemd starts again
// count only as a reason why others are down.
func (p pendingStarts) mark(units []down, require bool) {
	for _, name := range p.missing(units, require) {
		i := slices.IndexFunc(units, func(u down) bool { return u.ID == name })
		if u := units[i]; u.Invocation != "" && !u.Restarting() {
			p[name] = leftDown + u.Invocation
		}
	}
}

// kept returns the pending starts that are still needed. A unit with the same invocation ID as before
// the run was not stopped, so it needs no start.
func (p pendingStarts) kept(now []systemd.Unit) pendingStarts {
	out := maps.Clone(p)
	for _, u := range now {
		if u.Up() && u.Invocation != "" && p[u.ID] == u.Invocation {
			delete(out, u.ID)
		}
	}
	return out
}

// down is a unit with a pending start that is not active.
type down struct {
	systemd.Unit
	end systemd.End
}

// missing returns the units that no administrator stopped, in the order in which to start them:
// systemd refuses to start a socket whose service is active, so units that trigger others come
// first.
func (p pendingStarts) missing(units []down, require bool) []string {
	lost := make(map[string]down)
	for {
		before := len(lost)
		for _, u := range units {
			if p.lost(u, lost, require) {
				lost[u.ID] = u
			}
		}
		if len(lost) == before {
			return slices.SortedFunc(maps.Keys(lost), func(a, b string) int {
				if ta, tb := triggers(a), triggers(b); ta != tb {
					return map[bool]int{true: -1, false: 1}[ta]
				}
				return strings.Compare(a, b)
			})
		}
	}
}

// triggers reports whether the unit is of a type that starts other units.
func triggers(unit string) bool {
	return slices.Contains([]string{".socket", ".path", ".timer", ".automount"}, filepath.Ext(unit))
}

func (p pendingStarts) lost(u down, others map[string]down, require bool) bool {
	run := p[u.ID]
	in := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, ok := others[name]; return ok })
	}
	failed := u.Active == "failed" || u.Stranded()
	switch {
	case run == leftDown+u.Invocation, run == dependencyFailed+u.Invocation:
		return true
	case run == "": // its invocation is not known
		return failed || require
	case u.Invocation == run: // it was stopped, and not started since
		// The unit's start job did not run. If no other reason for that exists, an administrator
		// cancelled it.
		return failed || u.end.Skipped || require || slices.Contains(u.end.Needs, unitname.Apply) || in(u.end.Needs)
	case u.Stranded() || u.end.ExitedOnItsOwn(u.Unit) || u.end.Skipped:
		return true
	}
	// PID 1 stops a unit that is bound to one that has ended. If the other one was started after that and ended
	// again, an earlier end of it has stopped the unit, and PID 1 knows only the last end.
	return slices.ContainsFunc(u.end.Bound, func(name string) bool {
		other, ok := others[name]
		return ok && (other.end.Left <= u.end.Left || u.end.Left <= other.end.Began)
	})
}
