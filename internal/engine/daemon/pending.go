package daemon

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// pendingStarts are the pending starts by unit.
type pendingStarts map[string]runstate.PendingStart

// pendingIn returns the pending starts of a state, without what they wait for: each pass determines it.
func pendingIn(s runstate.State) pendingStarts {
	p := make(pendingStarts, len(s.Pending))
	for _, one := range s.Pending {
		one.WaitsFor = ""
		p[one.Unit] = one
	}
	return p
}

func (p pendingStarts) into(s *runstate.State) {
	s.Pending = nil
	for _, name := range p.names() {
		s.Pending = append(s.Pending, p[name])
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
		all[u.ID] = runstate.PendingStart{Unit: u.ID, Invocation: u.Invocation, Since: time.Now(), Reason: runstate.StoppedByRun}
	}
	return all
}

// record records why a unit that is down has a pending start.
func (p pendingStarts) record(u systemd.Unit, why runstate.PendingReason) {
	since := p[u.ID].Since
	if since.IsZero() {
		since = time.Now()
	}
	p[u.ID] = runstate.PendingStart{Unit: u.ID, Invocation: u.Invocation, Since: since, Reason: why}
}

// reason returns why the unit has a pending start.
func (p pendingStarts) reason(unit string) string {
	if p[unit].Reason == runstate.DependencyFailed {
		return "whose dependency failed at its first start and runs now"
	}
	return "which a failed run left down"
}

// notStarted reports whether the unit was stopped by a run and not started since, and the reason why it is down
// is not recorded.
func (p pendingStarts) notStarted(u systemd.Unit) bool {
	was := p[u.ID]
	return was.Reason == runstate.StoppedByRun && was.Invocation != "" && was.Invocation == u.Invocation
}

// mark records which of the units that are down a run has left down. The others count only as a reason why those are down.
func (p pendingStarts) mark(units []down, require bool) {
	for _, name := range p.missing(units, require) {
		i := slices.IndexFunc(units, func(u down) bool { return u.ID == name })
		if u := units[i]; u.Invocation != "" && !u.Up() {
			p.record(u.Unit, runstate.LeftDown)
		}
	}
}

// release removes the units that were started since, and that an administrator has stopped.
func (p pendingStarts) release(units []down, require bool) {
	missing := p.missing(units, require)
	for _, u := range units {
		known := u.Invocation != "" && p[u.ID].Invocation != ""
		if known && !u.Up() && u.Settled() && !p.notStarted(u.Unit) && !slices.Contains(missing, u.ID) {
			delete(p, u.ID)
		}
	}
}

// forget removes the units that no run has stopped: they are up with the same invocation ID as before. A unit that
// triggers clients stays, since it fails when a client has failed too often.
func (p pendingStarts) forget(now []systemd.Unit) {
	for _, u := range now {
		if u.Up() && p.notStarted(u) && !triggers(u.ID) {
			delete(p, u.ID)
		}
	}
}

// down is a unit that has ended, also if systemd or another program has started it again.
type down struct {
	systemd.Unit
	end systemd.End
}

// runs reports whether the unit is up after its last end.
func (d down) runs() bool { return d.Up() && !d.Restarting() }

// mayEndWith reports whether the unit, which is bound to another one, may have stopped because the other one ended. Otherwise
// the other one was active at that time. PID 1 knows only the last end of the other one, which may have ended before.
func (d down) mayEndWith(other down) bool {
	restarted := d.end.Left <= other.end.Began
	return restarted || !other.runs() && other.end.Left <= d.end.Left
}

// missing returns the units that no administrator stopped, in the order in which to start them:
// systemd refuses to start a socket whose service is active, so units that trigger others come
// first.
func (p pendingStarts) missing(units []down, require bool) []string {
	lost := make(map[string]down)
	running := make(map[string]down)
	for _, u := range units {
		if u.runs() {
			running[u.ID] = u
		}
	}
	for {
		before := len(lost)
		for _, u := range units {
			if !u.runs() && p.lost(u, lost, running, require) {
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

// stoppedInAutoRestart reports whether a service was stopped while it waited for its automatic restart. It is inactive
// with the result of the failure before. Without a stop, a service that fails is "failed".
func stoppedInAutoRestart(u systemd.Unit) bool {
	return u.Active == "inactive" && !slices.Contains([]string{"", "success", "exec-condition"}, u.Result)
}

// lost reports whether a run has left the unit down. others are those that runs have left down.
func (p pendingStarts) lost(u down, others, running map[string]down, require bool) bool {
	was := p[u.ID]
	in := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, ok := others[name]; return ok })
	}
	failed := u.Active == "failed" || u.Stranded()
	recorded := was.Reason == runstate.LeftDown || was.Reason == runstate.DependencyFailed
	switch {
	case recorded && was.Invocation == u.Invocation: // it was not started since
		return true
	case !recorded && was.Invocation == "": // its invocation is not known
		return failed || require
	case p.notStarted(u.Unit):
		// The unit's start job did not run. If no other reason for that exists, an administrator
		// cancelled it. A unit that triggers clients does not require the profile, and no run stops it.
		return failed || u.end.Skipped || require && !triggers(u.ID) || slices.Contains(u.end.Needs, unitname.Apply) || in(u.end.Needs)
	case stoppedInAutoRestart(u.Unit): // by an administrator, since a run stops it with the invocation of the stop
		return false
	case u.Stranded() || u.end.ExitedOnItsOwn(u.Unit) || u.end.Skipped:
		return true
	}
	return slices.ContainsFunc(u.end.Bound, func(name string) bool {
		other, ok := others[name]
		if !ok {
			other, ok = running[name]
		}
		return ok && u.mayEndWith(other)
	})
}
