package daemon

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// A run that fails in the middle of a driver reload leaves clients that systemd
// started again without a device: they fail, or end and are content, or are not even
// started, by a condition of their own or because what they require has failed. With
// require = true their start jobs fail with the run. The run that then succeeds
// restarts what is active, and that they no longer are. So what a run takes down is
// owed: it is in the state before the run begins, outlives the daemon there, and what
// is missing is started when the profile is on the GPUs. What somebody has stopped
// meanwhile is not missing, and PID 1 knows.

// pendingStarts are units that were up when a run took them down, with the invocation that
// they then had; "" where that is not known.
type pendingStarts map[string]string

// debtsOf reads them from a state.
func debtsOf(s runstate.State) pendingStarts {
	d := make(pendingStarts, len(s.Owed))
	for _, name := range s.Owed {
		d[name] = s.OwedRuns[name]
	}
	return d
}

// into writes them into a state.
func (d pendingStarts) into(s *runstate.State) {
	s.Owed, s.OwedRuns = d.names(), maps.Clone(d)
	if len(d) == 0 {
		s.Owed, s.OwedRuns = nil, nil
	}
}

func (d pendingStarts) names() []string { return slices.Sorted(maps.Keys(d)) }

// plus returns what is owed if a run that stops these units fails.
func (d pendingStarts) plus(taken []systemd.Unit) pendingStarts {
	all := maps.Clone(d)
	if all == nil {
		all = make(pendingStarts)
	}
	for _, u := range taken {
		all[u.ID] = u.Invocation
	}
	return all
}

// kept returns the debts without those units that are still in the invocation they
// were in: they were not taken down.
func (d pendingStarts) kept(now []systemd.Unit) pendingStarts {
	out := maps.Clone(d)
	for _, u := range now {
		if u.Up() && u.Invocation != "" && d[u.ID] == u.Invocation {
			delete(out, u.ID)
		}
	}
	return out
}

// down is a unit that is owed and not up.
type down struct {
	systemd.Unit
	end systemd.End
}

// missing returns those that nobody has stopped, in the order in which to start them:
// systemd refuses to start a socket whose service is active, so units that trigger others
// come first.
func (d pendingStarts) missing(units []down, require bool) []string {
	lost := make(map[string]down)
	for {
		before := len(lost)
		for _, u := range units {
			if d.lost(u, lost, require) {
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

func (d pendingStarts) lost(u down, others map[string]down, require bool) bool {
	run := d[u.ID]
	in := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, ok := others[name]; return ok })
	}
	switch {
	case run == "": // from a dcm that did not write it down
		return u.Active == "failed" || require
	case u.Invocation == run: // it was taken down, and not started since
		// Its start job was canceled by somebody who stopped it, unless there is
		// another reason for it not to have run.
		return u.Active == "failed" || u.end.Skipped || require || slices.Contains(u.end.Needs, unitname.Apply) || in(u.end.Needs)
	case u.end.ExitedOnItsOwn(u.Unit) || u.end.Skipped:
		return true
	}
	// What is bound to a unit that has ended is stopped by PID 1, and not by anybody.
	return slices.ContainsFunc(u.end.Bound, func(name string) bool {
		other, ok := others[name]
		return ok && other.end.Left <= u.end.Left
	})
}

// startPending starts what is owed and missing when the profile is on the GPUs, and notes what
// is owed still.
func (p *pass) startPending(ctx context.Context, o *result) {
	switch {
	case (o.failure != nil || o.later != nil) && p.owes != nil:
		o.owed = p.owes
		// Where the driver is there, or the profile too, that is all that they wait for.
		if (o.failure == nil || !p.settings.Require && !p.GPUs.Left()) && len(p.owed) > 0 {
			if err := p.repay(ctx, o); err != nil {
				p.Log.Error("cannot start the clients that an earlier run kept down", "units", p.owed.names(), "error", err)
			}
		}
	case o.failure != nil, o.drift != nil, ctx.Err() != nil:
		o.owed = p.owed
	case len(p.owed) > 0:
		if err := p.repay(ctx, o); err != nil {
			p.Log.Error("cannot start the clients that a failed run kept down", "units", p.owed.names(), "error", err)
			o.owed = p.owed
		}
	}
}

// pin has PID 1 remember the units that are owed, whatever becomes of them.
func (p *pass) pin(ctx context.Context, u Units) {
	if len(p.owes) == 0 {
		return
	}
	p.minded = true
	if err := u.Pin(ctx, p.owes.names()); err != nil {
		p.Log.Warn("systemd may forget how clients came to be down, if they do", "error", err)
	}
}

// forget ends that when nothing is owed any more.
func (p *pass) forget(ctx context.Context, o result) {
	if len(o.owed) > 0 || !p.minded && len(p.owed) == 0 {
		return
	}
	u, err := p.connect(ctx)
	if err == nil {
		err = u.Unpin(ctx)
	}
	if err != nil {
		p.Log.Warn("cannot let systemd forget the clients", "error", err)
	}
}

// repay starts what is missing, and compares all that was owed with what it was. A
// unit that cannot be started is systemd's to tell of.
func (p *pass) repay(ctx context.Context, o *result) error {
	u, err := p.connect(ctx)
	if err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, 2*p.Limits.Clients)
	defer cancel()
	p.extend(2 * p.Limits.Clients)
	now, err := u.Settle(limit, p.owed.names())
	if err != nil {
		return err
	}
	lying, err := ends(ctx, u, now)
	if err != nil {
		return err
	}
	switch {
	case o.failure != nil: // such units wait for the profile
		lying = slices.DeleteFunc(lying, func(d down) bool { return slices.Contains(d.end.Needs, unitname.Apply) })
	case o.later != nil: // and such for their partitions
		lying = slices.DeleteFunc(lying, func(d down) bool { return d.end.Skipped })
	}
	missing := p.owed.missing(lying, p.settings.Require)
	for _, l := range lying {
		if l.Invocation == "" && p.owed[l.ID] != "" { // it was unloaded, and PID 1 has forgotten
			text := l.ID + " was active before a run that failed and is " + l.Active + "; whether somebody has stopped it cannot be told, so it is left so"
			p.Log.Warn(text, "unit", l.ID)
			o.advice = append(o.advice, text)
		}
	}
	for _, name := range missing { // all before the first start: a socket may start its service immediately
		if err := u.ResetFailed(ctx, name); err != nil {
			p.Log.Warn("cannot clear the start counter", "unit", name, "error", err)
		}
	}
	for _, name := range missing {
		p.Log.Info("starting "+name+", which a failed run kept down", "unit", name)
		if err := u.Start(ctx, name); err != nil {
			p.Log.Error(err.Error())
		}
	}
	if now, err = u.Settle(limit, missing); err != nil {
		p.Log.Error("cannot follow the clients' return", "error", err)
	}
	for _, n := range now {
		o.repaid = append(o.repaid, p.compare(systemd.Unit{Name: n.ID, ID: n.ID, Active: "active", Invocation: p.owed[n.ID]}, n))
	}
	if o.failure == nil && o.later == nil && o.problem == nil {
		o.problem = notBack(o.repaid)
	}
	return nil
}

// ends reads of those units that are not up how they came to be so.
func ends(ctx context.Context, u Units, units []systemd.Unit) ([]down, error) {
	var out []down
	for _, now := range units {
		if now.Up() || now.Load != "loaded" {
			continue
		}
		end, err := u.End(ctx, now.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, down{now, end})
	}
	return out, nil
}

// bringBack makes a run for a driver that one has left unloaded. Whoever asked for
// that one, clients that systemd started behind it and that ended without the driver
// are owed as well.
func (p *pass) bringBack(ctx context.Context) result {
	u, err := p.connect(ctx)
	if err != nil {
		return transient(err)
	}
	killed, err := u.End(ctx, unitname.Apply)
	if err != nil {
		return transient(err)
	}
	// Where the configuration is broken, PID 1 still knows the clients.
	clients, err := u.Units(ctx, slices.Concat(p.settings.Order.Clients, killed.Parts))
	if err != nil {
		return transient(fmt.Errorf("cannot read the clients' states: %w", err))
	}
	lying, err := ends(ctx, u, clients)
	if err != nil {
		return transient(err)
	}
	for _, l := range lying {
		_, known := p.owed[l.ID]
		if !known && l.end.Tried > killed.Began && (l.end.Skipped || l.end.ExitedOnItsOwn(l.Unit)) {
			p.owed[l.ID] = "of another run"
		}
	}
	p.Log.Warn("a run has left the driver unloaded: making another to load it")
	return p.change(ctx, nil)
}
