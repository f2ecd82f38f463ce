package lease

import (
	"context"
	"time"
)

// Host contains the functions of the machine that the allocator uses.
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
	// Prepare returns a snapshot, and the means to move the caller into a scope.
	Prepare(ctx context.Context, c Caller) (Snapshot, Move, error)
	// Lock prevents changes of the partitions until release is called. It returns [ErrChanging]
	// if they are being changed.
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
	// Terms returns the start and the time limit of each lease that has not ended.
	Terms(ctx context.Context, leases []string) (map[string]Term, error)
	// Extend sets the time limit of an active lease, counted from its start.
	Extend(ctx context.Context, unit string, limit time.Duration) error
}

// Term is the start of a lease and its time limit.
type Term struct {
	Began time.Time
	Limit time.Duration // 0 for no limit
}

// Processes reads the processes of callers.
type Processes interface {
	// Check returns an error if the caller's process has ended, or has more rights than its user.
	Check(c Caller) error
	// Within returns the lease that a process runs in, "" for none, and whether it is the only
	// process in that lease.
	Within(pid int) (unit string, alone bool)
	// Empty reports whether a lease has no process.
	Empty(unit string) bool
}

// Protection adds the protection of a lease that its device list does not give. Its methods start
// dcm-guard.service, which may have to wait for a run. That run takes the lock of [Partitions.Lock],
// so the caller must have released it.
type Protection interface {
	// Guard makes the partitions of an active exclusive lease inaccessible to all other
	// processes. It returns an [OpenError] if other processes already have them open.
	Guard(ctx context.Context, unit string) error
	// Reachable waits until the guard no longer protects the nodes of a lease for a former
	// holder. It returns why a node is still protected, "" if none is.
	Reachable(ctx context.Context, unit string, nodes []string) (why string)
	// LimitMemory limits the GPU memory of a shared lease. It returns a text for the user that
	// names the effective limits, or why there are none.
	LimitMemory(ctx context.Context, unit string, caps MemoryLimits) string
}

// Move moves the process of one caller into a scope.
type Move interface {
	// Start creates the scope and waits until the process is in it. notes names the cgroup limits
	// that no longer apply to the process.
	Start(ctx context.Context, s Scope) (notes []string, err error)
	// Undo moves all processes of the scope back to their former units and ends the scope. It
	// kills no process, since not all of them need be the caller's.
	Undo(ctx context.Context, unit string) error
	Close()
}
