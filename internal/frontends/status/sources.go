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

// The parts that may be hidden, by their keys in the JSON form.
const (
	partGPUs     = "gpus"
	partUnits    = "units"
	partClients  = "clients"
	partHolders  = "holders"
	partRun      = "last_run"
	partDaemon   = "daemon"
	partExpected = "expected"
	partReserved = "reservations"
	partConfined = "unconfined"
)

// PartTimeout limits how long one part may take.
const PartTimeout = 10 * time.Second

// Settings are the parts of the configuration that an account needs.
type Settings struct {
	Profile     string // the selected one
	Source      string
	UntilReboot bool
	Lasting     string // what is selected for good
	Defined     []string
	Warnings    []string
	Count       int // of GPUs that there should be; 0 if it does not say
}

// Inventory is what was read of the GPUs.
type Inventory struct {
	GPUs     []GPU
	Parts    []Part
	Profiles []string  // that can be selected, those that need no definition among them; nil: not known
	Problems []Problem // that the profile does not fit them, say
}

// ReservationState lists the reservations, and those that cannot be read.
type ReservationState struct {
	List  []Reserved
	Wrong []Problem // with them
	Notes []string  // that are worth knowing
	Guard Guard
	Open  []string // units
}

// UnitStates are systemd's states of the units.
type UnitStates struct {
	Own     []Unit
	Clients []Client // without what the last restart did to them
	Done    []string // of the clients, the jobs (Type=oneshot) whose last run ended with success
}

// Sources are the functions that read the parts. A nil function is not called. Its error says
// why the part is hidden or, if it returned a value too, why that is incomplete.
type Sources struct {
	Host Host
	DCM  string // its version

	// Settings returns those in force, and why the configuration on disk is not.
	Settings func() (Settings, error)

	GPUs     func(context.Context) (Inventory, error)
	Units    func(context.Context) (UnitStates, error)
	Holders  func(context.Context) ([]runstate.Holder, error)
	Daemon   func(context.Context) (*runstate.State, error)  // nil: it has told nothing in this boot
	Run      func(context.Context) (*runstate.Run, error)    // nil: there was none in this boot
	Reserve  func(context.Context) (ReservationState, error) // what is reserved
	Confined func(context.Context) (Confinement, error)      // how systemd keeps units to their partitions
	Known    func(context.Context) ([]string, error)         // addresses of the GPUs of the last success
	Queue    func() []Queued                                 // the requests that wait, which the daemon alone knows
}

// Confinement is how systemd confines units to their partitions.
type Confinement struct {
	Unconfined []Unconfined
	Lost       *Problem // systemd has not loaded dcm's drop-ins; nil if it has
}
