package sequence

import "time"

// Step is the next act, and what the node's condition says meanwhile.
type Step struct {
	Act       Act
	Condition Condition
	Slack     time.Duration // for how long the message may stand while only the message changes
}

// Condition is the node's condition GPUProfileApplied.
type Condition struct {
	Status  string // True, False or Unknown
	Reason  string
	Message string
}

// Act is one thing to do. Each may be done twice, or cut off at any point.
type Act interface{ act() }

// Rest waits for a change of what is seen.
type Rest struct{}

// Wait does so too, and looks again after a time.
type Wait struct{ For time.Duration }

// Patch changes the node's object, all of it at once, and only if nobody else has
// changed it since it was seen.
type Patch struct {
	Op     *Operation // what is under way from now on; nil for nothing
	Last   *Last      // nil leaves it
	State  string     // of the label; empty takes it away
	Cordon bool
	Taint  bool
	Event  *Event
}

// Event is to be told once the patch is in.
type Event struct {
	Warning bool
	Reason  string
	Note    string
	Key     string // tells it from others of the node; told again it is the same one
}

// Take takes a free or stale lease.
type Take struct{ Lease, Holder string }

// Free gives leases back.
type Free struct{ Leases []string }

// Evict asks for pods to leave, as their disruption budgets allow.
type Evict struct{ Pods []Pod }

// Delete deletes pods of operands.
type Delete struct{ Pods []Pod }

// Use has dcm take on the target.
type Use struct{ Target Target }

func (Rest) act()   {}
func (Wait) act()   {}
func (Patch) act()  {}
func (Take) act()   {}
func (Free) act()   {}
func (Evict) act()  {}
func (Delete) act() {}
func (Use) act()    {}
