// Package sequence decides the next act of a node's agent from the current state. It knows
// no API server, no dcm and no clock, and has no state. An agent that is killed at any point
// reads the state again, and continues or reverts the operation.
package sequence

import (
	"slices"
	"time"

	"dcm/cmd/dcm-kubernetes/internal/vendor"
)

// Phase is the progress of an operation.
type Phase string

const (
	Waiting    Phase = "waiting"    // for the budget
	Sparing    Phase = "sparing"    // only the GPUs that change are tainted; their pods are evicted
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
	Reason  string `json:"reason"`           // a reason of AMD's manager
	Message string `json:"message"`          // reason and hint
	Retry   bool   `json:"retry,omitempty"`  // a retry may succeed
	Judged  string `json:"judged,omitempty"` // the labels that did not permit the change
	Whole   bool   `json:"whole,omitempty"`  // the change of some GPUs failed: drain the whole node next time
}

// Operation is the current change, in the form of the node's annotation.
type Operation struct {
	ID     string `json:"id"`
	Vendor string `json:"vendor,omitempty"` // empty for AMD
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
	GPUs        []string  `json:"gpus,omitempty"`    // the only GPUs that change, by address and UUID; empty for all
	Devices     []string  `json:"devices,omitempty"` // their devices in ResourceSlices

	Paused  map[string]string `json:"paused,omitempty"`  // labels that select operands, with their values from before
	Emptied bool              `json:"emptied,omitempty"` // no pod uses the GPUs: all of these labels are paused
}

// Pauses reports whether a label that selects operands is paused now. Pods that end still need
// the DRA driver.
func (o *Operation) Pauses(label string) bool {
	return o.Emptied || o.Phase == Applying || !slices.Contains(vendor.Named(o.Vendor).PauseLate, label)
}

// Last is the result of the last change, in the form of the node's annotation.
type Last struct {
	Target
	State   string    `json:"state"`
	At      time.Time `json:"at"`
	Outcome *Outcome  `json:"outcome,omitempty"`
}

// States. Their names in the label are the vendor's.
const (
	Success    = vendor.Success
	Failure    = vendor.Failure
	InProgress = vendor.InProgress
	Rebooting  = vendor.Rebooting
)

// Input is the input of the decision.
type Input struct {
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
	Taints *DeviceTaints
	Tidy   bool   // leases and device taints of an earlier change may remain
	Check  bool   // a node at rest looks for a rival
	Rival  string // that of the last look; "" for none
	Used   *Used
}

// Times are the time limits and intervals of the agent.
type Times struct {
	Drain   time.Duration // limit for pods to leave; 0 for none
	Refresh time.Duration // limit for a device plugin before a warning
	Retry   time.Duration // between two attempts
	Look    time.Duration // between two reads of pods
	Budget  time.Duration // between two reads of the budget
	Reread  time.Duration // between two reads of a ConfigMap that cannot be watched
	Lease   time.Duration // after which a lease expires that is not renewed

	Heartbeat time.Duration // between two writes of an unchanged condition; 0 for none
}

// Node is the node's object.
type Node struct {
	Name        string
	Vendor      *vendor.Vendor // nil for AMD
	Conflict    string         // the profiles, if labels of several vendors select one
	Profile     string         // of the label; empty without
	State       string
	Cordoned    bool
	Tainted     bool
	Op          *Operation
	Last        *Last
	KMM         bool           // Kernel Module Management loads drivers here
	Drain       *time.Duration // replaces Times.Drain; nil without
	Pool        string         // pool of Leases that limits the node's changes
	Labels      map[string]string
	Allocatable map[string]int64 // GPUs, by resource
}

// vendor returns the vendor of the node.
func (n Node) vendor() *vendor.Vendor {
	if n.Vendor == nil {
		return vendor.AMD
	}
	return n.Vendor
}

// Config is the configuration that the ConfigMap holds.
type Config struct {
	Text    string
	Hash    string
	Problem *Outcome

	Texts    map[string]string     // texts of single profiles; the others have Text
	Unusable map[string]string     // reasons why profiles of NVIDIA's format cannot be selected
	Layouts  map[string][]MIGGroup // the other profiles of that format
}

// For returns the text for a profile.
func (c Config) For(profile string) string {
	if text, ok := c.Texts[profile]; ok {
		return text
	}
	return c.Text
}

// MIGGroup is the division of some GPUs in a profile.
type MIGGroup struct {
	Enabled bool
	Counts  map[string]int // instances by MIG profile
}

// Host is the state of the host, as dcm reports it.
type Host struct {
	Down       string // why dcm cannot be queried; "" if it can
	Running    bool   // a run is in progress
	Rebooting  bool   // the host is going to reboot for it
	Unread     bool   // dcm has not read the GPUs since its start
	Effective  string // the effective profile
	InSync     bool
	Problem    string         // the problems with their hints
	Partitions map[string]int // by mode, as cpx_nps4; "" for a GPU without MIG, and otherwise the MIG profile
	Whole      int            // GPUs of NVIDIA, divided or not
	Empty      int            // GPUs with MIG on and no instance
}

// Total is the number of partitions.
func (h Host) Total() int {
	n := 0
	for _, count := range h.Partitions {
		n += count
	}
	return n
}

// Plan is the effect of applying the target.
type Plan struct {
	Changes bool
	Reload  bool
	Refusal *Outcome
	GPUs    []string // the only GPUs that change, by address and UUID; empty for all
}

// Pods are the node's pods that use or serve GPUs.
type Pods struct {
	Work     []Pod  // pods that use GPUs; they leave first
	Operands []Pod  // pods of DaemonSets that serve GPUs
	Plugin   bool   // an operand is a device plugin
	Driver   bool   // an operand is a DRA driver, which publishes ResourceSlices
	Strategy string // the device plugin's setting for MIG; "" if it has none
	Rival    string // another program that partitions these GPUs, with a hint; "" for none

	Slices  map[string]int // devices in the node's ResourceSlices, by mode; nil without a DRA driver
	Devices []Device       // the same devices
}

// Device is a device in the node's ResourceSlices.
type Device struct {
	Pool, Name string
	GPU        []string // address and UUID of its GPU; empty if unknown
}

// DeviceTaints are the taints of devices that an agent of the node has created.
type DeviceTaints struct {
	Served  bool     // the API server has them
	Devices []string // tainted devices
}

// Used is the result of the last [Use] of this process.
type Used struct {
	Target
	Failed *Outcome
	Undone bool // the GPUs are unchanged
}

// Target returns the selected target. It reports false if no profile is selected, or if the
// configuration cannot be used.
func (s Input) Target() (Target, bool) {
	if s.Node.Profile == "" || s.Config.Problem != nil || s.Node.Conflict != "" {
		return Target{}, false
	}
	return Target{Profile: s.Node.Profile, Hash: s.Config.Hash}, true
}

// Planned returns the target that Plan describes: the selected one or, if the label was removed
// during the change, that of the operation.
func (s Input) Planned() (Target, bool) {
	op := s.Node.Op
	if s.Node.Profile == "" && s.Config.Problem == nil && op != nil && op.Phase == Applying && op.Hash == s.Config.Hash {
		return op.Target, true
	}
	return s.Target()
}

// Wanted are the inputs that [Next] needs in addition to the node, the configuration and the host.
type Wanted struct{ Plan, Pods, Leases, Taints bool }

// Wants returns the inputs to read. A node whose target is applied needs none, except for a check.
func Wants(s Input) Wanted {
	_, selected := s.Target()
	_, planned := s.Planned()
	op := s.Node.Op
	switch {
	case op == nil:
		idle := !selected || s.Host.Down != "" || s.Host.Running || settled(s) != nil
		return Wanted{Plan: !idle, Pods: !idle || s.Check && applied(s), Leases: !idle || s.Tidy, Taints: s.Tidy}
	case op.Phase == Waiting:
		// Many nodes may wait and poll, so pods are read only by a node with a Lease.

		return Wanted{Plan: selected, Pods: holds(s), Leases: true, Taints: holds(s)}
	case op.Phase == Sparing:
		return Wanted{Plan: selected, Pods: true, Taints: true}
	case op.Phase == Draining:
		return Wanted{Plan: selected, Pods: true}
	case op.Phase == Applying:
		return Wanted{Plan: planned}
	}
	return Wanted{Pods: true}
}
