package daemon

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Scope is the GPUs that a change of single GPUs changes, and the clients that it concerns.
type Scope struct {
	GPUs       []partition.Address                   // those that change
	Concerning func(unit string) []partition.Address // those of them whose change concerns a client; none if it uses only what stays

	Known   func(unit string) bool // reports whether the GPUs that a client uses are known
	Total   int                    // number of GPUs of the profile
	repeats bool                   // the run repeats one that was killed
	others  []partition.Address    // GPUs that differ from the profile and do not change: abandoned ones or, with repeats, those of later rounds

	// Part returns the scope of some of the GPUs, and those of all holders that block it. Part is nil if
	// the GPUs change together.
	Part func(gpus []partition.Address, all []runstate.Holder) (*Scope, []runstate.Holder)

	// Without returns the scope without the GPUs that some holders block, and those of all holders
	// that block it. The scope is nil if no GPU is left. Without is nil if all GPUs change, or none.
	Without func(blocking, all []runstate.Holder) (*Scope, []runstate.Holder)
}

// without is Without for any scope.
func (s *Scope) without(blocking, all []runstate.Holder) (*Scope, []runstate.Holder) {
	if s == nil || s.Without == nil {
		return nil, nil
	}
	return s.Without(blocking, all)
}

// leavesOthers reports whether GPUs that failed permanently have to stay as they are.
func (s *Scope) leavesOthers() bool { return s != nil && !s.repeats && len(s.others) > 0 }

// restart is a run that the daemon requests, and the units that it restarts.
type restart struct {
	unit     string                         // dcm-apply.service, or dcm-change.service for single GPUs
	change   *runstate.Change               // what dcm-change.service may change
	clients  []systemd.Unit                 // whose partitions change: all, or those of single GPUs
	withheld map[string][]partition.Address // see [Scope.withheld]
	progress *runstate.Progress             // before a round of a change
	stopped  []systemd.Unit                 // the active ones of the clients and of their dependents, which the restart stops
}

// chooseRestart returns the smallest restart for the scope; a nil scope is the whole node. It is the
// whole node, too, if all active clients are affected, or if the last run for the whole node failed, unless
// the scope leaves out GPUs that failed. The clients that require the profile on their own GPUs continue if other GPUs fail, so only a nil scope
// restarts all of them.
func chooseRestart(ctx context.Context, pid1 PID1, s Settings, scope *Scope, blocking []runstate.Holder) (restart, error) {
	clients, err := listClients(ctx, pid1, s.Order.Clients)
	if err != nil {
		return restart{}, err
	}
	if part := scope.affected(clients, blocking); scope != nil && (active(part) < active(clients) || s.mayFailPartly() || scope.leavesOthers()) {
		own, err := pid1.States.List(ctx, []string{unitname.Apply}, systemd.All)
		if err != nil {
			return restart{}, err
		}
		if len(own) > 0 && (own[0].Active != "failed" || scope.leavesOthers() && !s.Require) {
			return restartPart(ctx, pid1, clients, scope, blocking)
		}
	}
	stopped, err := restartedUnits(ctx, pid1, unitname.Apply, clients)
	return restart{unit: unitname.Apply, clients: clients, stopped: stopped}, err
}

// restartPart returns the restart of dcm-change.service for the scope.
func restartPart(ctx context.Context, pid1 PID1, clients []systemd.Unit, scope *Scope, blocking []runstate.Holder) (restart, error) {
	part := scope.affected(clients, blocking)
	stopped, err := restartedUnits(ctx, pid1, unitname.Change, part)
	change := &runstate.Change{GPUs: scope.GPUs, Stopped: invocations(stopped), Kept: continuing(clients, stopped)}
	return restart{unit: unitname.Change, change: change, clients: part, stopped: stopped}, err
}

// invocations returns the invocation of each unit.
func invocations(units []systemd.Unit) map[string]string {
	out := make(map[string]string, len(units))
	for _, u := range units {
		out[u.ID] = u.Invocation
	}
	return out
}

// chosen is a restart that is possible now, or the holders that prevent it.
type chosen struct {
	blockers
	remaining []runstate.Holder   // prevent the restart
	left      []runstate.Holder   // prevent the change of the GPUs in leaves, and of no other
	leaves    []partition.Address // stay as they are
	scope     *Scope              // of the restart
	blocking  []runstate.Holder   // block its steps
}

// choose returns the smallest restart for the scope. It leaves out the GPUs that holders block, if
// the other GPUs may change without them. b has all but the restart.
func choose(ctx context.Context, pid1 PID1, b blockers, scope *Scope, blocking []runstate.Holder) (chosen, error) {
	out := chosen{blockers: b}
	if ok, err := b.settings.permitsScope(ctx, pid1); err != nil {
		return out, err
	} else if !ok {
		scope = nil
	}
	for {
		var err error
		if out.restart, err = chooseRestart(ctx, pid1, b.settings, scope, blocking); err != nil {
			return out, err
		}
		out.stuck, out.scope, out.blocking = nil, scope, blocking
		if out.remaining, err = out.blockers.remaining(ctx, blocking); err != nil {
			return out, fmt.Errorf("cannot determine whether a restart would free the GPUs: %w", err)
		}
		if len(out.remaining) == 0 || len(out.includable(out.remaining)) > 0 {
			return out, nil
		}
		rest, still := scope.without(out.remaining, blocking)
		if rest == nil {
			return out, nil
		}
		for _, a := range scope.GPUs {
			if !slices.Contains(rest.GPUs, a) {
				out.leaves = append(out.leaves, a)
			}
		}
		out.left = append(out.left, out.remaining...)
		rest.others = scope.others
		scope, blocking = rest, still
	}
}

// affected returns the clients that a change concerns: those without a known set of GPUs, those whose
// partitions change, and those of processes that block it.
func (s *Scope) affected(clients []systemd.Unit, blocking []runstate.Holder) []systemd.Unit {
	if s == nil {
		return clients
	}
	return slices.DeleteFunc(slices.Clone(clients), func(c systemd.Unit) bool {
		blocks := slices.ContainsFunc(blocking, func(h runstate.Holder) bool { return h.Unit == c.ID })
		return !blocks && len(s.Concerning(c.ID)) == 0
	})
}

// continuing returns the active clients that a restart does not stop.
func continuing(clients, stopped []systemd.Unit) []string {
	var out []string
	for _, c := range clients {
		if c.Up() && !slices.Contains(ids(stopped), c.ID) {
			out = append(out, c.ID)
		}
	}
	return out
}

func listClients(ctx context.Context, pid1 PID1, names []string) ([]systemd.Unit, error) {
	clients, err := pid1.States.List(ctx, names, systemd.All)
	if err != nil {
		return nil, fmt.Errorf("cannot read the states of the clients: %w", err)
	}
	return clients, nil
}

func restartedUnits(ctx context.Context, pid1 PID1, unit string, clients []systemd.Unit) ([]systemd.Unit, error) {
	stopped, err := systemd.RestartedUnits(ctx, pid1.States, pid1.Dependencies, unit, clients)
	if err != nil {
		return nil, fmt.Errorf("cannot determine which units a restart would stop: %w", err)
	}
	return stopped, nil
}

// active returns the number of units that a restart would stop.
func active(units []systemd.Unit) int {
	n := 0
	for _, u := range units {
		if u.Up() {
			n++
		}
	}
	return n
}
