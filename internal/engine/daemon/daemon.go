// Package daemon is the loop of dcm.service. After an event it reads the configuration and
// compares the GPUs with the profile. If they differ it restarts dcm-apply.service once, waits
// for the end, and verifies the clients.
//
//	run.go          waits for events
//	look.go         starts a pass after an event
//	announce.go     takes up the selections of commands
//	deadline.go     ends a selection that was not confirmed
//	decide.go       one pass: a comparison, and at most one restart
//	restart.go      decides whether a restart would help
//	scope.go        chooses the units that it concerns
//	blockers.go     holders that a restart would not remove
//	transaction.go  the restart, and the verification of the clients after it
//	withheld.go     clients that do not start after a failed change of single GPUs
//	failedstarts.go services that were started during a run and failed
//	judge.go        records why clients are down, before a run
//	starter.go      starts clients that a failed run left down
//	finish.go       decides what follows a pass
//
// The package must not import files, D-Bus or devices: it takes channels of events and small
// interfaces.
// It never changes hardware, and stops a client only by that restart. It starts a client only
// if a failed run has left it down.
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

// Settings are the parts of the configuration that the daemon uses.
type Settings struct {
	Profile     partition.Profile
	Selected    bool   // a profile is selected; otherwise the GPUs are left alone
	Source      string // what selected it
	UntilReboot bool   // the selection ends at the next boot

	ConfirmBy time.Time // when the selection ends unless it is confirmed; zero if it need not be
	Expired   string    // why the selection is the former one again; "" if it is not, or was before already
	Require   bool
	Order     systemd.Order // what the generator writes; its Clients are restarted around a change
	Rest      string        // all other settings of a run, as one text
	Suggest   bool          // report the services that hold a GPU and could be clients
	Include   bool          // make them clients
	Warnings  []string
	Timeout   time.Duration // how long to wait for the driver to bring its GPUs up

	Budgets    []Budget
	SettleTime time.Duration // how long units have to be active before they count as up

	Reboot     bool // reboot the host if nothing else puts the profile on the GPUs
	LeaveDrift bool // report changes by other programs instead of repairing them
}

// Daemon has the dependencies of the loop. A field is required unless its comment says what nil
// means. Limits and Requests are optional.
type Daemon struct {
	Load      func() (Settings, error)            // reads the configuration; the error has all problems
	LastGood  func() (Settings, error)            // the last configuration that an earlier daemon of this boot loaded
	Stale     func(Settings) ([]string, error)    // the units whose drop-ins differ from the settings
	Unwritten func() ([]string, error)            // the units whose drop-ins differ from what the generator would write now
	Reserve   Reserve                             // nil: there are no reservations
	Unmet     func() bool                         // reports whether a reservation has no partitions; nil: each has some
	Dial      func(context.Context) (PID1, error) // connects to PID 1
	DialWait  func(context.Context) (PID1, error) // connects to PID 1 to wait for changes of units
	Busy      func() (bool, error)                // reports whether a run is in progress
	HoldGate  func() (release func(), err error)  // keeps dcm-gate.service from ending
	LastRun   func() (*runstate.Run, error)       // the oneshot's report
	Save      func(runstate.State) error          // publishes the daemon's state
	Fit       func(units []string) []string       // returns the units that could be clients
	Include   func(units []string) error          // makes units clients for the generator and for Load, until the next boot
	Withheld  WithheldClients
	GPUs      GPUReader
	Use       UseWatcher
	Explain   func(err error) runstate.Error // classifies an error of [GPUReader.Observe]
	Host      Host
	Rearm     func() // renews the watches at the end of each pass; nil: there are none
	Notify    Notifier
	Lifecycle Lifecycle
	Log       *slog.Logger

	Changed <-chan struct{}  // the configuration may have changed
	Devices <-chan struct{}  // the GPUs may have changed; nil: they are not watched
	Hangup  <-chan os.Signal // an administrator requests a check
	Ticks   <-chan time.Time // the watchdog's interval; nil without a watchdog

	Requests <-chan Request // programs request a check; nil: none can

	Notes Notes // of commands about their selections and requests

	Limits Limits
}

// Reserve reports whether partitions have to be chosen again for reservations. An error with a hint
// leaves all units as they are; if it names holders, Reserve is called again when one has ended.
type Reserve func(context.Context, Settings) (due bool, err error)

// Limits are the daemon's time limits; zero means the default.
type Limits struct {
	Run     time.Duration // for one run of the oneshot
	Clients time.Duration // for the clients to start after it
	Retry   Backoff
}

// ConfigError is a configuration that cannot be used.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// StartError is the reason why the selected profile is not on the GPUs at start.
type StartError struct{ Reason runstate.Error }

func (e *StartError) Error() string { return e.Reason.Text }
