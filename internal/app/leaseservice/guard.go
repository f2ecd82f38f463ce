package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/leases/guard"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
)

// guardTimeout is how long a caller waits for dcm-guard.service. It runs after a run of
// dcm-apply.service, if one is under way.
const guardTimeout = 10 * time.Second

// guardRuns is how often dcm-guard.service is started for one change of what is exclusive. A
// run that is under way may have begun before the change; the one after it has not.
const guardRuns = 3

// Guard has the partitions of a lease open nowhere else, and then looks for processes that
// have opened them before.
func (p *Host) Guard(ctx context.Context, unit string) error {
	if guard.IsOff(p.host) {
		return errors.New(guard.OffReason)
	}
	limit, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	state, err := p.guarded(limit, unit)
	switch {
	case err != nil:
		return err
	case state.Why != "":
		return errors.New(state.Why)
	}
	look, enough := context.WithTimeout(ctx, HostTimeout)
	defer enough()
	open, err := guard.Intruders(look, p.host, func(holder string) bool { return holder == unit })
	if len(open) > 0 {
		return &lease.OpenError{Processes: open}
	}
	return err // not every process may be looked at, among others
}

// guarded starts dcm-guard.service until its table has what a lease holds.
func (p *Host) guarded(ctx context.Context, unit string) (runstate.Guard, error) {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return runstate.Guard{}, err
	}
	defer conn.Close()
	for range guardRuns {
		if err := conn.Jobs.RunOnce(ctx, unitname.Guard); err != nil {
			return runstate.Guard{}, err
		}
		state, err := runstate.ReadGuard(p.host.Runtime())
		switch {
		case err != nil:
			return runstate.Guard{}, err
		case state != nil && !state.Changing && (state.Why != "" || state.Loaded && state.Holds(unit)):
			return *state, nil
		}
	}
	return runstate.Guard{}, fmt.Errorf("%s: the guard's table does not have the partitions of %s", unitname.Guard, unit)
}

// Reachable runs dcm-guard.service until its table has the nodes of a lease for no other holder. An
// exclusive lease that has ended, or a reservation that has changed, stays in the table until the
// next run.
func (p *Host) Reachable(ctx context.Context, unit string, nodes []string) string {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	for range guardRuns {
		state, err := runstate.ReadGuard(p.host.Runtime())
		if err != nil || state == nil || closedTo(*state, unit, nodes) == "" {
			return ""
		}
		if err := p.runGuard(ctx); err != nil {
			return "some devices may not open yet: " + err.Error()
		}
	}
	state, err := runstate.ReadGuard(p.host.Runtime())
	if err != nil || state == nil {
		return ""
	}
	if node := closedTo(*state, unit, nodes); node != "" {
		return node + " may not open: it is guarded for another holder"
	}
	return ""
}

// closedTo returns a node that is guarded and does not open for a holder, "" if there is none.
func closedTo(t runstate.Guard, holder string, nodes []string) string {
	open := make(map[string]bool)
	for _, g := range t.Table {
		if slices.Contains(nodes, g.Node) {
			open[g.Node] = open[g.Node] || g.Holder == holder
		}
	}
	for _, node := range nodes {
		if is, guarded := open[node]; guarded && !is {
			return node
		}
	}
	return ""
}

func (p *Host) runGuard(ctx context.Context) error {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.RunOnce(ctx, unitname.Guard)
}
