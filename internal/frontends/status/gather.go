package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/sysfs"
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

// Patience limits how long one part may take.
const Patience = 10 * time.Second

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

// Gather reads all parts concurrently, each within its own time limit, and evaluates them. It
// never fails: a part that cannot be read is hidden.
func Gather(ctx context.Context, now time.Time, s Sources) Account {
	a := Account{Version: Version, Taken: now, Host: s.Host, DCM: s.DCM}
	gpus, units, holders := begin(ctx, s.GPUs), begin(ctx, s.Units), begin(ctx, s.Holders)
	reserved, confined := begin(ctx, s.Reserve), begin(ctx, s.Confined)
	state, run, known := begin(ctx, s.Daemon), begin(ctx, s.Run), begin(ctx, s.Known)

	a.daemon(take(&a, partDaemon, state))
	a.settings(s.Settings())
	a.LastRun = take(&a, partRun, run)
	a.sight(take(&a, partGPUs, gpus))
	a.standing(units != nil, take(&a, partUnits, units))
	a.holders(holders != nil, take(&a, partHolders, holders))
	a.reserve(take(&a, partReserved, reserved))
	a.confinement(take(&a, partConfined, confined))
	a.expect(take(&a, partExpected, known))
	if s.Queue != nil {
		a.Queue = s.Queue()
	}
	a.pending()
	return Evaluate(a)
}

type answer[T any] struct {
	value T
	err   error
}

// begin reads one part in the background. A part that does not answer in time is abandoned,
// since a system call into a hanging driver cannot be cancelled.
func begin[T any](ctx context.Context, look func(context.Context) (T, error)) <-chan answer[T] {
	if look == nil {
		return nil
	}
	answers := make(chan answer[T], 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		v, err := sysfs.Within(ctx, func() (T, error) { return look(ctx) })
		answers <- answer[T]{v, err}
	}()
	return answers
}

func take[T any](a *Account, part string, answers <-chan answer[T]) T {
	if answers == nil {
		var none T
		return none
	}
	got := <-answers
	if got.err != nil {
		a.markUnavailable(part, got.err)
	}
	return got.value
}

func (a *Account) markUnavailable(part string, err error) {
	a.Hidden = append(a.Hidden, Unavailable{part, err.Error()})
}

// daemon adds the daemon's state. What the state says of hardware and clients is evaluated
// again from what was read.
func (a *Account) daemon(s *runstate.State) {
	if s == nil {
		return
	}
	a.Daemon = Daemon{Phase: s.Phase, Since: s.Since, Retry: s.Retry, Owed: s.Owed, Config: s.Config}
	if s.Error != nil {
		a.Daemon.Error = &Problem{stateOf(s), s.Error.Text, s.Error.Hint}
	}
	a.Profile.InForce, a.Profile.Source = s.Profile, s.Source
	a.Warnings = append(a.Warnings, s.Warnings...)
	a.Restart = s.Restart
	for _, h := range s.Holders {
		a.Holders = append(a.Holders, holder(h, true))
	}
	for _, c := range s.Clients {
		a.Clients = append(a.Clients, Client{Unit: c.Unit, Load: "loaded", Active: c.Now, Sub: c.Sub, Result: c.Result,
			Restarts: c.Restarts, Ran: true, Before: c.Before, Back: c.Back, Invocation: c.Invocation})
	}
}

// stateOf returns the state of the daemon's error.
func stateOf(s *runstate.State) State {
	if s.Error.Unseen != nil {
		return Held
	}
	if off, ok := offStates()[s.Phase]; ok {
		return off
	}
	if s.Error.Transient {
		return Waiting // a run of dcm-reserve.service is made again
	}
	return Clients // all else is in order then
}

func (a *Account) settings(s Settings, err error) {
	a.Profile.Defined = s.Defined
	for _, w := range s.Warnings {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, w)
		}
	}
	a.Expected = Expected{GPUs: s.Count, By: ByConfiguration}
	switch {
	case err == nil:
		a.Profile.Selected = s.Profile
	default:
		a.Profile.Broken = err.Error()
		if s.Defined == nil {
			return // what the daemon has said has to do
		}
	}
	a.Profile.InForce, a.Profile.Source = s.Profile, s.Source
	a.Profile.UntilReboot, a.Profile.Lasting = s.UntilReboot, s.Lasting
}

func (a *Account) sight(s Inventory) {
	a.GPUs, a.Parts = s.GPUs, s.Parts
	if s.Profiles != nil && a.Profile.Defined != nil {
		a.Profile.Defined = s.Profiles
	}
	a.Problems = append(a.Problems, s.Problems...)
}

// standing adds the clients' current states to those of the last restart.
func (a *Account) standing(asked bool, s UnitStates) {
	a.Units = s.Own
	if !asked || a.hidden(partUnits) {
		a.Hidden = append(a.Hidden, Unavailable{partClients, "systemd was not asked: these are as the last restart left them"})
		a.taken()
		return
	}
	before := make(map[string]Client, len(a.Clients))
	for _, c := range a.Clients {
		before[c.Unit] = c
	}
	a.Clients = nil
	for _, c := range s.Clients {
		was, known := before[c.Unit]
		c.Before = was.Before
		c.Back = !known || was.Back || c.Active == "active" || slices.Contains(s.Done, c.Unit) && c.Invocation != was.Invocation
		if a.takes(c.Unit) {
			c.Before, c.Back = "active", c.Active == "active"
		}
		a.Clients = append(a.Clients, c)
	}
}

// takes reports whether the current run stops a unit and starts it again at its end.
func (a *Account) takes(unit string) bool {
	return a.running() && slices.Contains(a.Daemon.Owed, unit)
}

// restarting replaces systemd's state for units that the current run stops, if systemd is not
// queried.
const restarting = "restarting"

// taken corrects the clients that the current run stops: the result of the last restart is
// outdated.
func (a *Account) taken() {
	if !a.running() {
		return
	}
	for _, unit := range a.Daemon.Owed {
		i := slices.IndexFunc(a.Clients, func(c Client) bool { return c.Unit == unit })
		if i < 0 {
			i = len(a.Clients)
			a.Clients = append(a.Clients, Client{Unit: unit, Load: "loaded", Ran: true})
		}
		c := &a.Clients[i]
		c.Active, c.Sub, c.Result, c.Before, c.Back = restarting, "", "", "active", false
	}
}

// holders replaces the holders that the daemon found by all current ones.
func (a *Account) holders(asked bool, now []runstate.Holder) {
	if !asked || len(now) == 0 && a.hidden(partHolders) {
		return
	}
	way := a.Holders
	a.Holders = nil
	for _, h := range now {
		in := slices.ContainsFunc(way, func(w Holder) bool { return w.PID == h.PID })
		a.Holders = append(a.Holders, holder(h, in))
	}
}

func holder(h runstate.Holder, in bool) Holder {
	return Holder{PID: h.PID, Command: h.Command, Unit: h.Unit, Devices: h.Devices, InWay: in, Lessee: h.Lessee}
}

// expect records which of the known GPUs are missing.
func (a *Account) expect(known []string) {
	var there []string
	for _, g := range a.GPUs {
		if g.Managed() {
			there = append(there, g.Address)
		}
	}
	a.Expected = Expect(a.Expected.GPUs, known, there)
	if more := a.Expected.More(len(there)); more != "" {
		a.Warnings = append(a.Warnings, more)
	}
}

// More describes that there are more GPUs than the configuration says, or returns "".
func (e Expected) More(n int) string {
	if e.By != ByConfiguration || n <= e.GPUs {
		return ""
	}
	return fmt.Sprintf("there are %d GPUs to manage, and count under [gpu] says %d: if one is lost this is not noticed", n, e.GPUs)
}

// Expect returns how many GPUs there should be: the configured number, or without one the
// number at the last success. It also lists the known GPUs that are missing now.
func Expect(count int, known, there []string) Expected {
	e := Expected{GPUs: count, By: ByConfiguration}
	switch {
	case count == 0 && len(known) == 0:
		return Expected{}
	case count == 0:
		e = Expected{GPUs: len(known), By: ByLastSuccess}
	}
	if len(there) >= e.GPUs {
		return e
	}
	for _, address := range known {
		if !slices.Contains(there, address) {
			e.Missing = append(e.Missing, address)
		}
	}
	return e
}
