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
	switch {
	case run == "": // its invocation is not known
		return u.Active == "failed" || require
	case u.Invocation == run: // it was stopped, and not started since
		// The unit's start job did not run. If no other reason for that exists, an administrator
		// cancelled it.
		return u.Active == "failed" || u.end.Skipped || require || slices.Contains(u.end.Needs, unitname.Apply) || in(u.end.Needs)
	case u.end.ExitedOnItsOwn(u.Unit) || u.end.Skipped:
		return true
	}
	// PID 1 stops a unit that is bound to one that has ended. If the other one was started after that and ended
	// again, an earlier end of it has stopped the unit, and PID 1 knows only the last end.
	return slices.ContainsFunc(u.end.Bound, func(name string) bool {
		other, ok := others[name]
		return ok && (other.end.Left <= u.end.Left || u.end.Left <= other.end.Began)
	})
}
