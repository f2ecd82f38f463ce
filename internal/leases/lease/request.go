package lease

import (
	"time"

	"dcm/internal/gpu/partition"
	"dcm/internal/leases/placement"
	"dcm/internal/linux/caller"
	"dcm/internal/linux/unitname"
)

// Caller is a process that requests a lease for itself.
type Caller struct {
	UID       uint32 // the user whose limits apply
	PID       int
	Process   *caller.Process // identifies the process, even if its PID is used again
	Groups    []string        // the user's groups that have limits of their own
	Seniority uint64          // rank of a connection that is older than the daemon: the oldest has the lowest number; 0 for others
}

// Request describes the lease that a caller wants.
type Request struct {
	placement.Want
	Sought    partition.Criteria // Want.Kinds is set from it
	Make      string             // what is made for the lease: the profile of a MIG instance, or the compute mode of a GPU; "" for existing partitions
	Kind      unitname.LeaseKind
	Hold      bool          // other processes of the user may enter the lease
	Wait      bool          // wait until enough partitions are free
	WaitLimit time.Duration // the longest wait; 0 for no limit
	Time      time.Duration // time limit of the lease; 0 for none
	What      string        // the command, for the unit's description
	Of        int           // for a shared lease: how many leases may share a partition; 0 for the configured maximum

	// Moved is called when the request waits and its position in the queue has changed. of is the
	// length of the queue. Moved may be nil.
	Moved func(q Queued, of int)
}

// Lease is the answer to a request.
type Lease struct {
	Unit   string
	Choice placement.Choice
	Nodes  []string      // device nodes that the scope may open, in addition to those of every unit
	Notes  []string      // texts for the user: limits that no longer apply, missing protection
	Time   time.Duration // time limit; 0 for none
	TimeBy string        // the setting that has set Time; "" if it was requested

	Replaced []string // the exclusive leases that were tried before it and ended, because other processes had opened their partitions
}

// Scope is the unit that is created for a caller.
type Scope struct {
	Unit        string
	Description string
	PID         int      // of the caller
	Allow       []string // device nodes
	Requires    string   // a unit that starts before and stops after it; "" for none
	Wants       string   // a unit that starts with it and stays when it ends; "" for none
	Cleans      []string // units that start before it, and stop after its end and clean its partitions
	Time        time.Duration
	Hold        bool // PID 1 may move other processes into it (Delegate=)
}

// Queued describes a waiting request, for the status.
type Queued struct {
	Position   int // from 1
	PID        int // of the waiting process; it identifies the entry
	UID        uint32
	Partitions int // requested; 0 if GPUs is set
	GPUs       int
	Names      []string // the requested GPUs or partitions; nil for any
	Make       string   // MIG profile or compute mode that is created for the lease; "" for none
	Kind       unitname.LeaseKind
	Of         int           // of a shared lease: how many leases may share a partition
	Time       time.Duration // 0 for no limit
	Since      time.Time
	Reason     string // why it waits
}
