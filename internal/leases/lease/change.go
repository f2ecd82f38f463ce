package lease

import (
	"context"
	"fmt"
	"time"

	"dcm/internal/linux/unitname"
)

// Release ends a lease and its processes. Root may end any lease, other users only their own.
func (a *Allocator) Release(ctx context.Context, uid uint32, unit string) error {
	if err := mayChange(uid, unit); err != nil { // checked before PID 1 is queried, since every user may call
		return err
	}
	active, err := a.host.Scopes.Active(ctx, unit)
	if err != nil {
		return err
	}
	if !active {
		return errEnded(unit)
	}
	return a.host.Scopes.Stop(ctx, unit)
}

// Extend prolongs the time limit of a lease, which counts from the start of the lease. Root may extend
// any lease without a maximum, other users only their own, and not while a request of another user
// waits: that request may have been overtaken by this lease because of its time limit.
func (a *Allocator) Extend(ctx context.Context, c Caller, unit string, limit time.Duration) error {
	if err := mayChange(c.UID, unit); err != nil {
		return err
	}
	if err := a.policy.checkTime(c, limit); err != nil {
		return err
	}
	release, err := a.extending.lock(ctx, unit) // the limit is compared, written and read back
	if err != nil {
		return fmt.Errorf("another extension of %s takes too long: %w", unit, err)
	}
	defer release()
	terms, err := a.host.Scopes.Terms(ctx, []string{unit})
	if err != nil {
		return err
	}
	switch term, active := terms[unit]; {
	case !active:
		return errEnded(unit)
	case term.Limit == 0:
		return fmt.Errorf("%s has no time limit", unit)
	case term.Limit == limit: // by an earlier call that was not answered
		return nil
	case term.Limit > limit:
		return fmt.Errorf("the time limit of %s is %s already (requested %s); 'dcm lease release' ends a lease", unit, term.Limit, limit)
	}
	if c.UID != 0 && a.policy.get().Hours {
		snapshot, err := a.host.Partitions.Snapshot(ctx)
		if err != nil {
			return fmt.Errorf("cannot read the allocations: %w", err)
		}
		if err := snapshot.extendible(unit, c.UID, terms[unit], limit); err != nil {
			return err
		}
	}
	if n := a.queue.others(c.UID); n > 0 && c.UID != 0 {
		return &InsufficientError{Err: fmt.Errorf("%s cannot be extended while requests of other users wait (%d)", unit, n)}
	}
	err = a.host.Scopes.Extend(ctx, unit, limit)
	a.queue.wake()
	return err
}

// mayChange returns an error unless the user may end and extend the lease: root any, others their own.
func mayChange(uid uint32, unit string) error {
	name, ok := unitname.ParseLease(unit)
	switch {
	case !ok:
		return fmt.Errorf("%q is not the name of a lease, such as %s", unit, unitname.Lease{Kind: unitname.ConfinedLease, UID: 1000, ID: "4f1c09aa"})
	case uid != 0 && uid != name.UID:
		return fmt.Errorf("%s is the lease of user %d; only that user and root can change it", unit, name.UID)
	}
	return nil
}

// MayEnter returns an error unless the user's processes may enter the lease: root's any, others' their own.
func MayEnter(uid uint32, unit string) error {
	if name, ok := unitname.ParseLease(unit); ok && uid != 0 && uid != name.UID {
		return fmt.Errorf("%s is the lease of user %d; only that user and root can enter it", unit, name.UID)
	}
	return mayChange(uid, unit)
}

func errEnded(unit string) error { return fmt.Errorf("there is no lease %s; it may have ended", unit) }
