// Package sequence decides the next act of a node's agent from the current state. It knows
// no API server, no dcm and no clock, and has no state. An agent that is killed at any point
// reads the state again, and continues or reverts the operation.
package sequence

import "time"

// Phase is the progress of an operation.
type Phase string

const (
	Waiting    Phase = "waiting"    // for the budget
	Draining   Phase = "draining"   // cordoned and tainted; pods are evicted
	Applying   Phase = "applying"   // no pod uses the GPUs; dcm applies the profile
	Refreshing Phase = "refreshing" // the taint is removed; the device plugin counts again
)

// Target is what to apply: a profile of one configuration text.
type Target struct {
	Profile string `json:"profile"`
	Hash    string `json:"configHash"`
}

// Outcome is the reason of a failure.
type Outcome struct {
	Reason  string `json:"reason"`          // a reason of AMD's manager
	Message string `json:"message"`         // reason and hint
	Retry   bool   `json:"retry,omitempty"` // a retry may succeed
}

// Operation is the current change, in the form of the node's annotation.
type Operation struct {
	ID string `json:"id"`
	Target
	Phase       Phase     `json:"phase"`
	WasCordoned bool      `json:"wasCordoned"`
	WasTainted  bool      `json:"wasTainted"`
	Since       time.Time `json:"since"`              // start of the phase
	Operands    []string  `json:"operands,omitempty"` // owners of the pods that have to return
	Counted     bool      `json:"counted,omitempty"`  // a device plugin offered partitions
	Listed      bool      `json:"listed,omitempty"`   // Stale is known
	Stale       []string  `json:"stale,omitempty"`    // UIDs of pods to restart, since they tolerate the taint
	Sliced      bool      `json:"sliced,omitempty"`   // a DRA driver published partitions in ResourceSlices
	Outcome     *Outcome  `json:"outcome,omitempty"`
}

// Last is the result of the last change, in the form of the node's annotation.
type Last struct {
	Target
	State   string    `json:"state"`
	At      time.Time `json:"at"`
	Outcome *Outcome  `json:"outcome,omitempty"`
}

// States, as AMD's manager writes them.
const (
	Success    = "success"
	Failure    = "failure"
	InProgress = "in-progress"
)

// Seen is the input of the decision.
type Seen struct {
	Now    time.Time
	ID     string // for a new operation
	Times  Times
	Node   Node
	Config Config
	Host   Host

	// Read only if wanted, see Wants; otherwise nil.
	Plan   *Plan
	Pods   *Pods
	Leases *Leases
	Tidy   bool // leases of an earlier change may remain
	Used   *Used
}

// Times are the time limits and intervals of the agent.
type Times struct {
	Drain   time.Duration // limit for pods to leave
	Refresh time.Duration // limit for a device plugin before a warning
	Retry   time.Duration // between two attempts
	Look    time.Duration // between two reads of pods
	Budget  time.Duration // between two reads of the budget
	Reread  time.Duration // between two reads of a ConfigMap that cannot be watched
	Lease   time.Duration // after which a lease expires that is not renewed
}

// Node is the node's object.
type Node struct {
	Name        string
	Profile     string // of the label; empty without
	State       string
	Cordoned    bool
	Tainted     bool
	Op          *Operation
	Last        *Last
	KMM         bool             // Kernel Module Management loads drivers here
	Allocatable map[string]int64 // GPUs, by resource
}

// Config is the configuration that the ConfigMap holds.
type Config struct {
	Text    string
	Hash    string
	Problem *Outcome
}

// Host is what dcm tells of the host.
type Host struct {
	Down       string // why dcm cannot be asked
	Running    bool   // a run is under way
	InForce    string
	InSync     bool
	Problem    string         // what is wrong and its hint
	Partitions map[string]int // by mode, as cpx_nps4
}

// Total is the number of partitions.
func (h Host) Total() int {
	n := 0
	for _, count := range h.Partitions {
		n += count
	}
	return n
}

// Plan is what taking on the target would do.
type Plan struct {
	Changes bool
	Reload  bool
	Refusal *Outcome
}

// Pods are those of the node that matter.
type Pods struct {
	Work     []Pod  // use GPUs, and are to go first
	Operands []Pod  // of DaemonSets that serve GPUs
	Plugin   bool   // one of the operands counts partitions
	Driver   bool   // one of them tells of them in ResourceSlices
	Rival    string // who else divides GPUs here, and what to do about it; empty if nobody

	Slices map[string]int // devices in the node's ResourceSlices, by mode; nil where there is no driver to ask after
}

// Pod is one of them.
type Pod struct {
	Namespace, Name, UID string
	Owner                string    // namespace and name of what brings it back; empty if nothing does
	Mirror               bool      // a file on the node brings it back
	Leaving              bool      // it has been told to
	Ready                bool      //
	Stays                bool      // tolerates the taint
	NotBefore            time.Time // when its eviction may be asked for again
	Refused              string    // what was said to the last eviction
}

// Leases are the budget: who holds one may change its node.
type Leases struct {
	All []Lease
}

// Lease is one place in it.
type Lease struct {
	Name   string
	Holder string // Holder of a node and an operation; empty if free
	Stale  bool   // the holder's node has no such operation any more
}

// Holder is the identity by which an operation holds a lease.
func Holder(node, operation string) string { return node + "/" + operation }

// Used is what came of the last act of the kind Use, as far as this process knows.
type Used struct {
	Target
	Failed *Outcome
	Undone bool // the GPUs are as they were
}

// Target is what is wanted, if anything is and it can be told.
func (s Seen) Target() (Target, bool) {
	if s.Node.Profile == "" || s.Config.Problem != nil {
		return Target{}, false
	}
	return Target{Profile: s.Node.Profile, Hash: s.Config.Hash}, true
}

// Planned is the target that Plan describes: the one that is selected or, if the label was
// removed while dcm divided the GPUs, that of the operation, to see whether it was reached.
func (s Seen) Planned() (Target, bool) {
	op := s.Node.Op
	if s.Node.Profile == "" && s.Config.Problem == nil && op != nil && op.Phase == Applying && op.Hash == s.Config.Hash {
		return op.Target, true
	}
	return s.Target()
}

// Wanted is what Next takes beyond the node, the configuration and the host.
type Wanted struct{ Plan, Pods, Leases bool }

// Wants says what is to be looked at. A node that is as wanted costs nothing.
func Wants(s Seen) Wanted {
	_, told := s.Target()
	_, planned := s.Planned()
	op := s.Node.Op
	switch {
	case op == nil:
		idle := !told || s.Host.Down != "" || s.Host.Running || settled(s) != nil
		return Wanted{Plan: !idle, Pods: !idle, Leases: !idle || s.Tidy}
	case op.Phase == Waiting:
		// Many wait at a time, and look often: no pods before it is their turn.
		return Wanted{Plan: told, Pods: holds(s), Leases: true}
	case op.Phase == Draining:
		return Wanted{Plan: told, Pods: true}
	case op.Phase == Applying:
		return Wanted{Plan: planned}
	}
	return Wanted{Pods: true}
}
