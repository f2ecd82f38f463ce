package status

import (
	"context"
	"time"

	"dcm/internal/engine/runstate"
)

// The sources of the expected number of GPUs.
const (
	ByConfiguration = "configuration"
	ByLastSuccess   = "last success"
)

// The JSON keys of the parts that may be hidden.
const (
	partGPUs     = "gpus"
	partUnits    = "units"
	partClients  = "clients"
	partHolders  = "holders"
	partRun      = "last_run"
	partDaemon   = "daemon"
	partExpected = "expected"
	partLeases   = "leases"
	partReserved = "reservations"
	partConfined = "unconfined"
)

// PartTimeout limits the time to read one part.
const PartTimeout = 10 * time.Second

// Settings are the parts of the configuration that an account needs.
type Settings struct {
	Profile     string // the selected one
	Source      string
	UntilReboot bool
	Persistent  string // the persistent selection
	Unconfirmed *Unconfirmed
	Defined     []string
	Warnings    []string
	Count       int // expected number of GPUs; 0 if not configured
}

// Inventory contains the GPUs and their partitions.
type Inventory struct {
	GPUs     []GPU
	Parts    []Part
	Profiles []string  // the profiles that can be selected, predefined ones included; nil if unknown
	Problems []Problem // for example, that the profile does not fit the GPUs
	Warnings []string  // for example, that an instance of a lease that has ended is in use
}

// ReservationState lists the reservations, and those that cannot be read.
type ReservationState struct {
	List  []Reserved
	Wrong []Problem // problems of the reservations
	Notes []string  // warnings
	Guard Guard
	Open  []string // units whose reservation cannot be read
}

// HeldParts are the holders of the partitions.
type HeldParts struct {
	Holders map[string][]string  // by the name of the partition
	Since   map[string]time.Time // the start of each service among the holders, by its name
	Leases  []Lease
}

// UnitStates are systemd's states of the units.
type UnitStates struct {
	Own     []Unit
	Clients []Client             // current states; the results of the last restart are added later
	Done    []string             // clients with Type=oneshot whose last run succeeded
	Had     []runstate.GPUClient // clients that had a GPU open
}

// Sources are the functions that read the parts; a part whose function is nil is left out. A function
// that returns an error without a value hides its part. With a value, the part is incomplete. In both
// cases the account contains the error.
type Sources struct {
	Host Host
	DCM  string // its version

	// Settings returns the effective settings, and the error of the configuration on disk.
	Settings func() (Settings, error)

	GPUs     func(context.Context) (Inventory, error)
	Units    func(context.Context) (UnitStates, error)
	Holders  func(context.Context) ([]runstate.Holder, error)
	Daemon   func(context.Context) (*runstate.State, error)  // nil: no state in this boot
	Run      func(context.Context) (*runstate.Run, error)    // nil: no run in this boot
	Reserve  func(context.Context) (ReservationState, error) // the reservations
	Confined func(context.Context) (Confinement, error)      // the confinement of units by systemd
	Known    func(context.Context) (runstate.Known, error)   // the GPUs of the last success
	Held     func(context.Context) (HeldParts, error)        // the holders of the partitions
	Queue    func() []Queued                                 // the wait queue, which only the daemon knows
}

// Confinement lists the units that systemd does not confine to their partitions.
type Confinement struct {
	Unconfined []Unconfined
	Lost       *Problem // systemd has not loaded dcm's drop-ins; nil if it has
}
