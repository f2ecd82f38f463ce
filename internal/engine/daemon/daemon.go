// Package daemon is the loop of dcm.service: something changed, so read the
// configuration, plan, and only if there is something to do ask for one restart
// of dcm-apply.service, follow it, and verify what came back.
//
// It knows no files, no D-Bus and no device: it is handed a channel that says
// "something changed" and small interfaces. It never changes hardware, never
// stops a client unit, and starts one only when a failed run has kept it down.
package daemon

import (
	"context"
	"log/slog"
	"os"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// Settings is what the configuration says, as far as the daemon needs it.
type Settings struct {
	Profile  partition.Profile
	Selected bool   // a profile is selected; otherwise the GPUs are left alone
	Source   string // what selected it
	Require  bool
	Order    systemd.Order // what the generator writes for it; its Clients are restarted around a change
	Rest     string        // all else that a run goes by, as one text
	Suggest  bool          // name the services that are in the way and could be clients
	Include  bool          // make them clients
	Warnings []string
	Timeout  time.Duration // how long to wait for the driver to bring its GPUs up

	Reboot     bool // for what cannot be had otherwise
	LeaveDrift bool // GPUs that somebody else changes are told of and left so
}

// Observation is what one look at the GPUs has shown.
type Observation struct {
	Diff     int               // that the profile is away
	Blocking []runstate.Holder // processes that would keep them from succeeding
	// Published reports whether the list of partitions, and the links of the reservations, are
	// of these GPUs; nil: they are.
	Published   func() bool
	Fingerprint string // the GPUs in sum: two equal sums mean that nothing has happened between them; "" if they were not seen
}

// GPUs is what the daemon asks of the hardware. All of it only looks.
type GPUs interface {
	// Steps looks how far the GPUs are from the profile. What was seen is told beside
	// an error too.
	Steps(ctx context.Context, p partition.Profile) (Observation, error)
	// Left tells that a run has left the driver unloaded: the next one loads it,
	// whatever the configuration says, and before that nothing can be seen.
	Left() bool
	// Seen sums up the GPUs as they are this moment.
	Seen(ctx context.Context) string
	// Glance is another one when something has changed that no device tells of; it
	// costs next to nothing.
	Glance() string
	// Explain classifies an error of Steps.
	Explain(err error) runstate.Error
	// Gone returns when one of the processes has ended, or ctx has.
	Gone(ctx context.Context, holders []runstate.Holder) error
	// Use returns what of the driver's use nobody who can be seen accounts for.
	Use(ctx context.Context) (runstate.Use, error)
	// Eased returns when that has become less than it was, or ctx has ended.
	Eased(ctx context.Context, than runstate.Use) error
}

// Host can be rebooted.
type Host interface {
	// Reboot reboots it for the profile. It refuses if it was done before in vain.
	Reboot(ctx context.Context, p partition.Profile, why string) error
	// Reached notes that the profile is on the GPUs.
	Reached(p partition.Profile) error
}

// Units is PID 1, reached for one run. [systemd.Conn] is one.
type Units interface {
	Units(ctx context.Context, names []string) ([]systemd.Unit, error)
	Glance(ctx context.Context, names []string) ([]systemd.Unit, error)
	Dependents(ctx context.Context, names []string) ([]string, error)
	End(ctx context.Context, name string) (systemd.End, error)
	Frozen(ctx context.Context, unit string) (bool, error)
	OrderedAfter(ctx context.Context, unit, first string, others []string) (bool, error)
	OrderingPath(ctx context.Context, unit string, others []string) ([]string, error)
	Reload(ctx context.Context) error
	ResetFailed(ctx context.Context, name string) error
	Start(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) (systemd.Unit, error)
	Triggers(ctx context.Context, names []string) ([]systemd.Unit, error) // that are up and start the named ones
	Pin(ctx context.Context, units []string) error                        // until Unpin it is known how they came to be down
	Unpin(ctx context.Context) error
	Settle(ctx context.Context, names []string) ([]systemd.Unit, error)
	Close() error
}

// Notifier is the service manager's ear. [systemd.Notifier] is one.
type Notifier interface {
	Ready() error
	Reloading() error
	Stopping() error
	Status(text string) error
	Watchdog() error
	ExtendTimeout(d time.Duration) error
}

// Daemon holds what the loop is handed. All fields that do not say what nil means, but Limits and Requests, are required.
type Daemon struct {
	Load      func() (Settings, error)             // reads the configuration; every problem in one error
	LastGood  func() (Settings, error)             // what an earlier daemon of this boot has last loaded
	Stale     func(Settings) ([]string, error)     // the units whose drop-ins are not those of the settings
	Unwritten func() ([]string, error)             // the units whose drop-ins are not those that the generator is to write now
	Reserve   Reserve                              // nil: there are no reservations
	Unmet     func() bool                          // one of them has no partitions; nil: each has some
	Dial      func(context.Context) (Units, error) // connects to PID 1
	Busy      func() (bool, error)                 // a run is under way
	LastRun   func() (*runstate.Run, error)        // the oneshot's report
	Save      func(runstate.State) error           // publishes the daemon's state
	Fit       func(units []string) []string        // those of the units that could be clients
	Include   func(units []string) error           // makes units clients, for the generator and for Load, until the boot ends
	GPUs      GPUs
	Host      Host
	Looked    func() // called at the end of each pass, which may have changed what is to be watched; nil: nothing is
	Notify    Notifier
	Log       *slog.Logger

	Changed <-chan struct{}  // the configuration may have changed
	Devices <-chan struct{}  // the GPUs may have been changed; nil: nobody watches them
	Hangup  <-chan os.Signal // an administrator asks to look again
	Ticks   <-chan time.Time // the watchdog's pace; nil without a watchdog

	Requests <-chan Request // programs ask to look again; nil if none can
	Started  runstate.Asked // who has started the daemon, and for what; zero if that is not known

	Limits Limits
}

// Reserve tells whether partitions are to be chosen anew for reservations. An error with a
// cure leaves all as it is; if it names holders it is asked again when one has ended.
type Reserve func(context.Context, Settings) (due bool, err error)

// Limits are the daemon's times; the zero value of each means the default.
type Limits struct {
	Run     time.Duration // how long one run of the oneshot may take
	Clients time.Duration // how long to wait for the clients to be back
	Retry   Backoff
}

// ConfigError is a configuration that cannot be used.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// StartError is why the selected profile is not on the GPUs at start.
type StartError struct{ Reason runstate.Error }

func (e *StartError) Error() string { return e.Reason.Text }
