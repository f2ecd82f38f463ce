package daemon

import (
	"context"
	"io"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// Observation is the result of one inspection of the GPUs.
type Observation struct {
	Diff     int                    // number of steps to the profile
	GPUs     []partition.Address    // that the steps change
	Blocking []runstate.Holder      // processes that would keep the steps from succeeding
	Scope    *Scope                 // of steps that concern single GPUs; nil: they concern the whole node
	Users    runstate.InstanceUsers // for which the steps were planned
	// Published reports whether the list of partitions and the links of the reservations match
	// these GPUs; nil means that they match.
	Published   func() bool
	Present     []partition.Address // that can be partitioned; nil if they were not read
	Fingerprint string              // equal if the GPUs did not change between two observations; "" if they were not read
}

// GPUReader reads the GPUs and the driver.
type GPUReader interface {
	// Observe compares the GPUs with the profile. If it returns an error, the observation has the
	// parts that were read.
	Observe(ctx context.Context, p partition.Profile) (Observation, error)
	// Inventory returns an observation with only its Present and Fingerprint. It does not wait for the driver.
	Inventory(ctx context.Context) Observation
	// Glance returns a text that differs after some changes that cause no event. It is cheap.
	Glance() string
	// DriverUnloaded reports that a run has left the driver unloaded. The next run loads it,
	// whatever the configuration says; until then no GPU can be read.
	DriverUnloaded() bool
}

// WithheldClients are the clients that do not start, see [runstate.Withheld].
type WithheldClients interface {
	Read() (map[string][]partition.Address, error)
	Add(clients map[string][]partition.Address) error
	Keep(keep func(unit string, gpu partition.Address) bool) error
	Clear() error
}

// Notes are the files that commands write before they make a selection or a request.
type Notes interface {
	Read() []runstate.Note // in the order of their times
	// Forget removes a note, whose content a saved state has.
	Forget(runstate.Note)
}

// UseWatcher waits until a GPU is no longer in use.
type UseWatcher interface {
	// AwaitExit returns when one of the processes has ended, or ctx has.
	AwaitExit(ctx context.Context, holders []runstate.Holder) error
	// Use returns the current use of the driver that before belongs to.
	Use(ctx context.Context, before runstate.Use) (runstate.Use, error)
	// AwaitUseBelow returns when the use of the driver in than is lower than than, or ctx has
	// ended.
	AwaitUseBelow(ctx context.Context, than runstate.Use) error
}

// Host can be rebooted.
type Host interface {
	// Reboot reboots the host for the profile. It refuses if a reboot did not help before.
	Reboot(ctx context.Context, p partition.Profile, why string) error
	// Reached records that the profile is on the GPUs.
	Reached(p partition.Profile) error
}

// PID1 is a connection to the service manager, as one interface for each use in a pass.
type PID1 struct {
	States       UnitReader
	Availability AvailabilityReader
	Failures     FailureReader
	Dependencies DependencyReader
	Order        OrderReader
	Jobs         UnitController
	Pins         UnitPinner
	Manager      Reloader
	io.Closer
}

// PID1Of returns the parts of a connection that a pass uses.
func PID1Of(c *systemd.Conn) PID1 {
	return PID1{States: c.Units, Availability: c.Units, Failures: c.Units, Dependencies: c.Dependencies, Order: c.Dependencies, Jobs: c.Jobs, Pins: c.Pins, Manager: c.Manager, Closer: c}
}

// UnitReader reads the states of units.
type UnitReader interface {
	List(ctx context.Context, names []string, fields systemd.Fields) ([]systemd.Unit, error)
	// Settle waits until settled is true for each of the units, and returns them. If ctx ends first, it
	// returns the states at that time, with the error of ctx.
	Settle(ctx context.Context, names []string, settled func(systemd.Unit) bool) ([]systemd.Unit, error)
	// End returns how a unit stopped or failed.
	End(ctx context.Context, name string) (systemd.End, error)
	// Frozen reports whether systemctl(1) freeze keeps systemd from stopping a unit.
	Frozen(ctx context.Context, unit string) (bool, error)
}

// AvailabilityReader reads which units are up, and waits for changes.
type AvailabilityReader interface {
	// Availability returns the loaded units whose names match one of the patterns, in which
	// * is any text.
	Availability(ctx context.Context, patterns []string) ([]systemd.Availability, error)
	// Changed returns when the ActiveState of a unit differs from its entry in had, or ctx has ended.
	Changed(ctx context.Context, had map[string]string) error
}

// FailureReader reads which services have failed.
type FailureReader interface {
	// StartedAndFailed returns the failed services that were started in a period.
	StartedAndFailed(ctx context.Context, from, to time.Time) ([]string, error)
}

// DependencyReader reads which units belong to a restart.
type DependencyReader interface {
	systemd.DependentsReader
	// Triggers returns the active units that start the named ones.
	Triggers(ctx context.Context, names []string) ([]systemd.Unit, error)
}

// OrderReader reads the order of units.
type OrderReader interface {
	OrderedAfter(ctx context.Context, unit, first string, others []string) (bool, error)
	OrderingPath(ctx context.Context, unit string, others []string) ([]string, error)
}

// UnitController changes units.
type UnitController interface {
	Restart(ctx context.Context, name string) (systemd.Unit, error)
	// RestartAround restarts units around a run, see [systemd.Jobs.RestartAround].
	RestartAround(ctx context.Context, c systemd.Change, queued func(missed error)) (systemd.Unit, error)
	Start(ctx context.Context, name string) error
	ResetFailed(ctx context.Context, name string) error
}

// Reloader makes PID 1 load the units again.
type Reloader interface {
	Reload(ctx context.Context) error
}

// UnitPinner makes PID 1 keep units loaded, so that it can report how they stopped or failed.
type UnitPinner interface {
	Pin(ctx context.Context, units []string) error
	Unpin(ctx context.Context) error
}

// Notifier is the service manager's notification socket. [systemd.Notifier] implements it, and
// Lifecycle.
type Notifier interface {
	Status(text string) error
	Watchdog() error
	ExtendTimeout(d time.Duration) error
}

// Lifecycle reports the phases of a service to the service manager.
type Lifecycle interface {
	Ready() error
	Reloading() error
	Stopping() error
}
