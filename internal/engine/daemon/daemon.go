// Package daemon is the loop of dcm.service. After an event it reads the configuration and
// compares the GPUs with the profile. If they differ it restarts dcm-apply.service once, waits
// for the end, and verifies the clients.
//
//	loop       receives events, starts passes, and decides what follows one
//	pass       one comparison, and at most one restart; decides whether to restart the clients
//	blockers   holders that a restart would not remove
//	transaction  the restart, and the verification of the clients after it
//	starter    starts clients that a failed run left down
//	reporter   logs verdicts
//
// It knows no files, no D-Bus and no device: it takes channels of events and small interfaces.
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

// Daemon holds what the loop is handed. All fields that do not say what nil means, but Limits and Requests, are required.
type Daemon struct {
	Load      func() (Settings, error)            // reads the configuration; every problem in one error
	LastGood  func() (Settings, error)            // what an earlier daemon of this boot has last loaded
	Stale     func(Settings) ([]string, error)    // the units whose drop-ins are not those of the settings
	Unwritten func() ([]string, error)            // the units whose drop-ins are not those that the generator is to write now
	Reserve   Reserve                             // nil: there are no reservations
	Unmet     func() bool                         // one of them has no partitions; nil: each has some
	Dial      func(context.Context) (PID1, error) // connects to PID 1
	Busy      func() (bool, error)                // a run is under way
	LastRun   func() (*runstate.Run, error)       // the oneshot's report
	Save      func(runstate.State) error          // publishes the daemon's state
	Fit       func(units []string) []string       // those of the units that could be clients
	Include   func(units []string) error          // makes units clients, for the generator and for Load, until the boot ends
	GPUs      GPUReader
	Use       UseWatcher
	Explain   func(err error) runstate.Error // classifies an error of [GPUReader.Observe]
	Host      Host
	Rearm     func() // called at the end of each pass, which may have changed what is to be watched; nil: nothing is
	Notify    Notifier
	Lifecycle Lifecycle
	Log       *slog.Logger

	Changed <-chan struct{}  // the configuration may have changed
	Devices <-chan struct{}  // the GPUs may have been changed; nil: nobody watches them
	Hangup  <-chan os.Signal // an administrator asks to look again
	Ticks   <-chan time.Time // the watchdog's pace; nil without a watchdog

	Requests <-chan Request // programs ask to look again; nil if none can
	Started  runstate.Asked // who has started the daemon, and for what; zero if that is not known

	Limits Limits
}

// Reserve reports whether partitions have to be chosen again for reservations. An error with a hint
// leaves all units as they are; if it names holders, Reserve is called again when one has ended.
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
