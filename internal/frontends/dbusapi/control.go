package dbusapi

import (
	"context"
	"time"

	"dcm/internal/frontends/status"
	"dcm/internal/linux/caller"
)

// Control carries out the calls. If it returns one of this package's error types, the caller gets the
// D-Bus error of that type.
type Control struct {
	Profiles  ProfileService
	Planner   Planner
	Documents DocumentService
	Leases    LeaseService
	Queue     QueueService
}

// ProfileService changes the GPUs and the selected profile.
type ProfileService interface {
	// Apply inspects the GPUs, changes them if needed, and returns the daemon's state after
	// that. It returns an error if the selected profile is not on the GPUs then.
	Apply(ctx context.Context, by Caller) (state string, err error)
	// Known returns an error if Use cannot select the profile. It checks only the effective
	// configuration and reads no file.
	Known(profile string) error
	// Use selects a profile and then applies it like Apply.
	Use(ctx context.Context, by Caller, s Selection) (state string, err error)
	// Confirm keeps the profile, or "none", if it is selected until it is confirmed. Otherwise it returns an
	// [OvertakenError].
	Confirm(ctx context.Context, by Caller, profile string) error
	// Reload reads the configuration and inspects the GPUs. It returns an error if the
	// configuration cannot be used.
	Reload(ctx context.Context, by Caller) error
}

// Planner plans changes and makes none.
type Planner interface {
	// Plan returns the steps that Use would make for the profile, or Apply if profile is "". It
	// reads the configuration files for root only; for other callers it uses the effective
	// configuration.
	Plan(ctx context.Context, by Caller, profile string) (Plan, error)
	// Plans returns in JSON what Use would do for each profile that can be selected, and whether it would
	// be refused now. It uses the effective configuration.
	Plans(ctx context.Context) (string, error)
}

// DocumentService returns documents in JSON. Every caller may read them.
type DocumentService interface {
	// Account gathers and returns the current status.
	Account(ctx context.Context) (string, error)
	// History returns the last runs.
	History(ctx context.Context) (string, error)
	// Usage measures and returns how much of each partition is in use.
	Usage(ctx context.Context) (string, error)
}

// LeaseService grants partitions to processes.
type LeaseService interface {
	// Member reports whether members of one of the groups may have leases without a decision of
	// polkit.
	Member(groups []uint32) bool
	// Acquire moves the caller's process into a lease. ctx ends when the caller disconnects.
	Acquire(ctx context.Context, by Caller, r Request) (Lease, error)
	// Release ends a lease. Root may end any lease, other users only their own.
	Release(ctx context.Context, by Caller, lease string) error
	// Enter moves the caller's process into a lease that was requested with Hold. Root may enter any
	// such lease, other users only their own.
	Enter(ctx context.Context, by Caller, lease string) (partitions []string, err error)
	// Extend sets the time limit of a lease, counted from its start. Root may extend any lease,
	// other users only their own.
	Extend(ctx context.Context, by Caller, lease string, limit time.Duration) error
}

// QueueService serves the queue of requests for leases.
type QueueService interface {
	// Queue lists the requests that wait for a lease, in the order in which they are served.
	Queue() []status.Queued
	// Dequeue removes a request from the queue. Root may remove any request, other users only
	// their own.
	Dequeue(by Caller, id int) error
}

// Selection is a profile and how long it stays selected.
type Selection struct {
	Profile     string
	UntilReboot bool // otherwise permanently

	Confirm time.Duration // the time to confirm the selection; 0: it need not be confirmed
}

// Lease is the reply to a request for a lease.
type Lease struct {
	Unit       string // the scope; "" for a dry run
	Partitions []string
	Reason     string
	Notes      []string
}

// Caller identifies the caller of a method as the bus reports it. PID may belong to another process
// when it is used. Process always identifies the caller.
type Caller struct {
	UID           uint32
	Owner         uint32          // the user to whom limits and leases belong; differs from UID in a user namespace
	Groups        []uint32        // nil if the bus does not report them
	PID           int             // 0 if the bus does not report it
	Process       *caller.Process // set for Acquire only, and closed after the call
	ConnectionAge uint64          // lower for older connections; 0 for a connection younger than the daemon's
}

func (c call) caller() Caller {
	return Caller{UID: c.who.uid, Owner: c.who.owner, Groups: c.who.groups, PID: c.who.pid}
}

// Plan lists what a change to a profile would do.
type Plan struct {
	Profile string
	Steps   []Step
	Clients []string // the units that would be restarted
	Rounds  []Round  // of a change that would be made in rounds
	Waits   string   // why no round, or no further one, would begin; "" if each would
}

// Round is one round of a change. Its type on the bus is (asas).
type Round struct {
	GPUs    []string // PCI addresses
	Clients []string // the units that it would restart
}

// Step is one step of a plan. Its type on the bus is (sasss).
type Step struct {
	Kind     string
	Devices  []string // PCI addresses; empty for a step of the whole node
	From, To string
}
