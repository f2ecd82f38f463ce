package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/dmem"
	"dcm/internal/leases/guard"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
)

// guardTimeout is how long a caller waits for dcm-guard.service, which waits for the end of a current
// run of dcm-apply.service.
const guardTimeout = 10 * time.Second

// maxGuardRuns is the number of starts of dcm-guard.service for one change of the exclusive
// partitions. A current run may have begun before the change.
const maxGuardRuns = 3

// protection starts dcm-guard.service, which alone has the permissions to protect leases. It
// implements [lease.Protection].
type protection struct{ host *host.Host }

// Guard updates the guard's table, and then searches for processes that opened the partitions
// before.
func (p protection) Guard(ctx context.Context, unit string) error {
	if guard.IsOff(p.host) {
		return errors.New(guard.OffReason)
	}
	limit, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	state, err := p.load(limit, unit)
	switch {
	case err != nil:
		return err
	case state.Why != "":
		return errors.New(state.Why)
	}
	search, done := context.WithTimeout(ctx, HostTimeout)
	defer done()
	open, err := guard.Intruders(search, p.host, func(holder string) bool { return holder == unit })
	if len(open) > 0 {
		return &lease.OpenError{Processes: open}
	}
	return err // some processes may not be readable
}

// load starts dcm-guard.service until its table has the partitions of a lease.
func (p protection) load(ctx context.Context, unit string) (runstate.Guard, error) {
	for range maxGuardRuns {
		if err := p.run(ctx); err != nil {
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

// run starts dcm-guard.service and waits for its end.
func (p protection) run(ctx context.Context) error {
	conn, err := p.host.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.RunOnce(ctx, unitname.Guard)
}

// Reachable starts dcm-guard.service until its table has the nodes of a lease for no other holder. An
// exclusive lease that has ended, or a reservation that has changed, stays in the table until the
// next run.
func (p protection) Reachable(ctx context.Context, unit string, nodes []string) string {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	for n := 0; ; n++ {
		state, err := runstate.ReadGuard(p.host.Runtime())
		if err != nil || state == nil {
			return ""
		}
		node := closedTo(*state, unit, nodes)
		switch {
		case node == "":
			return ""
		case n == maxGuardRuns:
			return node + " may fail to open: the guard's table has it for another holder"
		}
		if err := p.run(ctx); err != nil {
			return "some devices may fail to open: " + err.Error()
		}
	}
}

// closedTo returns a node that is guarded and that the holder cannot open, "" if there is none.
func closedTo(t runstate.Guard, holder string, nodes []string) string {
	open := make(map[string]bool)
	for _, g := range t.Table {
		if slices.Contains(nodes, g.Node) {
			open[g.Node] = open[g.Node] || g.Holder == holder
		}
	}
	for _, node := range nodes {
		if own, guarded := open[node]; guarded && !own {
			return node
		}
	}
	return ""
}

// LimitMemory starts dcm-guard.service, which writes the limits, and reads them back.
func (p protection) LimitMemory(ctx context.Context, unit string, caps lease.MemoryLimits) string {
	const not = "shared, not capped: "
	if len(caps) == 0 {
		return not + "the size of a partition's memory is not known"
	}
	if guard.IsOff(p.host) {
		return not + guard.OffReason
	}
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	for range 2 { // a current run may have begun before the lease
		if err := p.run(ctx); err != nil {
			return not + err.Error()
		}
		now, err := dmem.Tree{Root: p.host.Path("sys/fs/cgroup")}.Capped(filepath.Join(unitname.Slice, unit))
		if err == nil && capped(now, caps) {
			return fmt.Sprintf("shared: the cgroup limits the memory to %s", caps)
		}
	}
	return not + p.uncapped()
}

func capped(now, caps map[partition.Address]uint64) bool {
	for gpu, bytes := range caps {
		if limit, ok := now[gpu]; !ok || limit > bytes {
			return false
		}
	}
	return true
}

// uncapped returns why dcm-guard.service could not set a limit.
func (p protection) uncapped() string {
	switch state, err := runstate.ReadGuard(p.host.Runtime()); {
	case err != nil:
		return err.Error()
	case state == nil || state.Uncapped == "":
		return "dcm-guard.service reported no reason"
	default:
		return state.Uncapped
	}
}
