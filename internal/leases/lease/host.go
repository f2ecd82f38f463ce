package lease

import (
	"context"
	"time"
)

// Host is the machine as the allocator uses it.
type Host struct {
	Partitions Partitions
	Scopes     Scopes
	Processes  Processes
	Protection Protection
}

// Partitions are the partitions of the node and their holders.
type Partitions interface {
	// Snapshot reads the partitions and their holders.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Prepare is Snapshot. It also reads what is needed to move the caller.
	Prepare(ctx context.Context, c Caller) (Snapshot, Move, error)
	// Lock keeps the partitions as they are until release is called. It returns [ErrChanging]
	// while they are being changed.
	Lock() (release func(), err error)
	// Changed returns a channel that is closed when units have started or ended, or the
	// partitions have changed, since the call. It watches until ctx ends.
	Changed(ctx context.Context) <-chan struct{}
}

// Scopes are the units of the leases.
type Scopes interface {
	// Active reports whether a unit is active, starting or stopping.
	Active(ctx context.Context, unit string) (bool, error)
	// Stop ends a unit and its processes.
	Stop(ctx context.Context, unit string) error
	// Terms returns when leases started and their time limits, without leases that have ended.
	Terms(ctx context.Context, leases []string) (map[string]Term, error)
}

// Term is how long a lease lasts.
type Term struct {
	Began time.Time
	Limit time.Duration // 0 for no limit
}

// Processes are the callers.
type Processes interface {
	// Check returns an error unless the caller's process exists and has the rights of its user
	// only.
	Check(c Caller) error
	// Within returns the lease that a process is in, "" for none, and whether it is the only
	// process there.
	Within(pid int) (unit string, alone bool)
	// Empty reports whether a lease has no process.
	Empty(unit string) bool
}

// Protection is what a lease has in addition to its device list. Its methods start
// dcm-guard.service, which may have to wait for a run. The run needs the lock of
// [Partitions.Lock], so that must be free.
type Protection interface {
	// Guard makes the partitions of an active exclusive lease inaccessible to all other
	// processes. If that fails, it returns an error: an [OpenError] if other processes have
	// opened them before.
	Guard(ctx context.Context, unit string) error
	// Reachable waits until the guard's table has the nodes of a lease for no other holder. It
	// returns why a node is still guarded, "" if none is.
	Reachable(ctx context.Context, unit string, nodes []string) (why string)
	// LimitMemory limits the GPU memory of a shared lease, in bytes, and returns a text that
	// says what is effective.
	LimitMemory(ctx context.Context, unit string, caps MemoryLimits) string
}

// Move moves one process into a scope.
type Move interface {
	// Start creates the scope, waits until the process is in it, and returns the limits of the
	// process that no longer apply.
	Start(ctx context.Context, s Scope) (notes []string, err error)
	// Undo moves all processes out of the scope, back to their former units, and ends the scope.
	// It kills no process, since one in the scope may not be the caller.
	Undo(ctx context.Context, unit string) error
	Close()
}
