package lease

import (
	"context"
	"errors"
	"fmt"

	"dcm/internal/gpu/made"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/unitname"
)

// grant is the permission to start a lease. The receiver closes done after its attempt.
type grant struct {
	snapshot Snapshot
	move     Move
	choice   placement.Choice
	before   string // the lease that is replaced, "" for none
	done     chan struct{}
}

// starter starts leases.
type starter struct {
	host   Host
	common []string // see [Config]
}

// maxStarts limits the attempts to start a scope after [ErrNotMoved].
const maxStarts = 5

// start creates the scope of a lease and then checks the caller again. A systemd without support for
// pidfds may have moved another process that now has the PID. Also, the caller may have executed a
// set-uid program.
func (s *starter) start(ctx context.Context, c Caller, r Request, g grant) (Lease, error) {
	l := Lease{Choice: g.choice, Nodes: nodesOf(g.choice, s.common), Time: r.Time}
	for n := 1; ; n++ {
		l.Unit = newName(c.UID, r, g.snapshot)
		scope := Scope{Unit: l.Unit, Description: describe(r, g.choice), PID: c.PID, Time: r.Time, Hold: r.Hold}
		if r.Make != "" {
			var name made.Name
			name, l.Nodes = makeFor(g.snapshot, l.Unit, r, g.choice, s.common)
			if scope.Requires = name.Unit(); name.IsMode() {
				scope.Wants = name.Keeper()
			}
		}
		scope.Allow, scope.Cleans = l.Nodes, g.snapshot.Cleaning.units(g.choice.Partitions)
		var err error
		l.Notes, err = g.move.Start(ctx, scope)
		l.Notes = append(l.Notes, g.snapshot.Held.notes(g.choice.Partitions)...)
		l.Notes = append(l.Notes, g.snapshot.Cleaning.notes(g.choice.Partitions)...)
		if err == nil {
			err = errors.Join(s.host.Processes.Check(c), s.verifyReplaced(g.before))
		} else {
			err = fmt.Errorf("cannot make %s: %w", l.Unit, err)
		}
		if err == nil {
			return l, nil
		}
		// The scope may still become active after the error. Undo ends it.
		again := errors.Is(err, ErrNotMoved) && n < maxStarts && r.Make == "" // the instance has its slots until it is destroyed
		err = errors.Join(err, g.move.Undo(context.WithoutCancel(ctx), l.Unit))
		if !again {
			return Lease{}, err
		}
		if gone := s.host.Processes.Check(c); gone != nil {
			return Lease{}, gone
		}
	}
}

// verifyReplaced returns an error if the caller has left other processes in its former lease: the
// partitions would have two holders.
func (s *starter) verifyReplaced(before string) error {
	if before == "" || s.host.Processes.Empty(before) {
		return nil
	}
	return fmt.Errorf("%s has other processes now, so that it cannot be replaced", before)
}

// NotExclusive begins the note of an exclusive lease that is not exclusive.
const NotExclusive = "not exclusive: "

// protect adds the protection that the kind of the lease requires, see [Protection]. opened is true if
// the lease is exclusive and other processes have its partitions open.
func (s *starter) protect(ctx context.Context, l *Lease, r Request) (opened bool) {
	p := s.host.Protection
	if r.Kind == unitname.ExclusiveLease {
		err := p.Guard(ctx, l.Unit)
		if err != nil {
			l.Notes = append(l.Notes, NotExclusive+err.Error())
		}
		_, opened = errors.AsType[*OpenError](err)
		return opened
	}
	if r.Kind == unitname.SharedLease {
		l.Notes = append(l.Notes, p.LimitMemory(ctx, l.Unit, memoryLimitsOf(l.Choice.Partitions, r.Of)))
	}
	if why := p.Reachable(ctx, l.Unit, l.Nodes); why != "" {
		l.Notes = append(l.Notes, why)
	}
	return false
}

// moveOut moves a caller into a scope without devices.
func (s *starter) moveOut(ctx context.Context, p *pending) error {
	_, move, err := s.host.Partitions.Prepare(ctx, p.Caller)
	if err != nil {
		return err
	}
	defer move.Close()
	if err := s.host.Processes.Check(p.Caller); err != nil {
		return err
	}
	unit := waitName(p.UID)
	_, err = move.Start(ctx, Scope{Unit: unit, Description: "Waiting for a lease", PID: p.PID})
	if err == nil {
		err = s.host.Processes.Check(p.Caller)
	}
	if err != nil {
		return errors.Join(err, move.Undo(context.WithoutCancel(ctx), unit))
	}
	return nil
}
