package sequence

import "time"

// Step is the next act, with the node's condition until it is done.
type Step struct {
	Act       Act
	Condition Condition
	Slack     time.Duration // minimum interval between two updates of the message alone
}

// Condition is the node's condition GPUProfileApplied.
type Condition struct {
	Status  string // True, False or Unknown
	Reason  string
	Message string
}

// Act is one action. It is idempotent, and may be interrupted at any point.
type Act interface{ act() }

// Rest waits until the input changes.
type Rest struct{}

// Wait waits until the input changes, at most for a time.
type Wait struct{ For time.Duration }

// Patch changes the node's object in one request. The request fails if the object was changed
// since it was read.
type Patch struct {
	Op     *Operation // the current operation; nil for none
	Last   *Last      // nil leaves it unchanged
	State  string     // value of the label; "" removes the label
	Cordon bool
	Taint  bool
	Event  *Event
}

// Event is written after the patch succeeded.
type Event struct {
	Warning bool
	Reason  string
	Note    string
	Key     string // identifies the event among those of the node
}

// Take takes a free or stale lease.
type Take struct{ Lease, Holder string }

// Free releases Leases.
type Free struct{ Leases []string }

// Evict requests evictions of pods, which their disruption budgets may refuse.
type Evict struct{ Pods []Pod }

// Delete deletes pods of operands.
type Delete struct{ Pods []Pod }

// Use applies the target through dcm.
type Use struct{ Target Target }

// TaintDevices keeps the scheduler from allocating devices of the node.
type TaintDevices struct{ Devices []string }

// UntaintDevices removes these taints.
type UntaintDevices struct{ Devices []string }

func (Rest) act()           {}
func (Wait) act()           {}
func (Patch) act()          {}
func (Take) act()           {}
func (Free) act()           {}
func (Evict) act()          {}
func (Delete) act()         {}
func (Use) act()            {}
func (TaintDevices) act()   {}
func (UntaintDevices) act() {}
