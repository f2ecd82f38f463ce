package gather

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu"
	"dcm/internal/leases/drain"
	"dcm/internal/leases/exclusive"
	"dcm/internal/leases/guard"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// Options is what an account of this host is taken by, beside what can be read
// below its root.
type Options struct {
	Config func() (*config.Config, error)                  // the one in force, and why that on disk is not
	State  func(context.Context) (*runstate.State, error)  // what the daemon knows
	GPUs   func(context.Context) (status.Inventory, error) // nil: a look at all of them
	All    bool                                            // look at what takes long, too: every process, every partition
	Busy   bool                                            // ask systemd nothing: it has enough to do
	Lost   func() *status.Problem                          // what the daemon knows of drop-ins that systemd has not loaded; nil if nobody watches them
}

// Sources looks, part by part, for an account of this host.
func Sources(h *host.Host, o Options) status.Sources {
	cfg, broken := o.Config()
	s := status.Sources{
		Host: about(h), DCM: h.Version,
		Settings: func() (status.Settings, error) { return settings(h, cfg), broken },
		GPUs:     o.GPUs,
		Daemon:   o.State,
		Run:      func(context.Context) (*runstate.Run, error) { return lastRun(h) },
		Reserve: func(ctx context.Context) (status.ReservationState, error) {
			return reservationState(ctx, h, cfg, broken != nil, o.Busy)
		},
		Known: func(context.Context) ([]string, error) { return status.ReadKnown(KnownGPUs(h)) },
	}
	if s.GPUs == nil {
		s.GPUs = func(ctx context.Context) (status.Inventory, error) {
			return Inventory(ctx, h, cfg, status.Inventory{}, o.All)
		}
	}
	if h.Here() && !o.Busy {
		s.Units = func(ctx context.Context) (status.UnitStates, error) {
			state, _ := o.State(ctx) // what is wrong with it is told of the daemon
			return UnitStates(ctx, h, restartedUnits(h, cfg, state), o.All)
		}
		s.Confined = func(ctx context.Context) (status.Confinement, error) {
			c, err := confinement(ctx, h, cfg)
			if o.Lost != nil {
				c.Lost = o.Lost()
			}
			return c, err
		}
	}
	if o.All {
		s.Holders = func(ctx context.Context) ([]runstate.Holder, error) { return host.Holders(ctx, h) }
	}
	return s
}

// ReservationState is what the last run has chosen. Reservations are read by themselves only
// where something is wrong with the configuration: else there is none that cannot be.
func reservationState(ctx context.Context, h *host.Host, cfg *config.Config, broken, busy bool) (status.ReservationState, error) {
	var out status.ReservationState
	if cfg != nil {
		out.Wrong = sliceProblems(h, cfg.Reservations)
	}
	out.Notes = drain.Notes(h)
	if cfg != nil {
		out.Notes = append(out.Notes, reservation.Elsewhere(h, cfg.Observers)...)
	}
	if broken {
		_, out.Open = reservation.Reservations(h)
	}
	p, err := runstate.ReadReservations(h.Runtime())
	if err != nil || p == nil || len(p.Reservations) == 0 {
		return out, err
	}
	for _, r := range p.Reservations {
		out.List = append(out.List, status.Reserved{Name: r.Name, Unit: r.Unit, Wants: r.Wants, Partitions: r.Partitions, Exclusive: r.Exclusive, Share: r.Share, Reason: r.Reason})
	}
	g, err := runstate.ReadGuard(h.Runtime())
	if g != nil {
		out.Guard = status.Guard{Loaded: g.Loaded, Devices: g.Devices, Why: g.Why, Unconfined: g.Unconfined, Uncapped: g.Uncapped}
	}
	if guard.IsOff(h) {
		out.Guard.Why = guard.OffReason
	}
	if err == nil && out.Guard.Why == "" && h.Here() && !busy && exclusive.Any(p.Reservations, nil) {
		err = addGuardProblems(ctx, h, cfg, &out.Guard)
	}
	return out, err
}

// addGuardProblems compares the guard's table with what is reserved, and looks for processes that
// have some of it open. Leases are left out: one that is just being given is not in the table
// yet, and dcm run says what becomes of it.
func addGuardProblems(ctx context.Context, h *host.Host, cfg *config.Config, g *status.Guard) error {
	var observers []string
	if cfg != nil {
		observers = cfg.Observers
	}
	reserved := func(holder string) bool { return !exclusive.Lease(holder) }
	var err error
	if g.Why, err = guard.DueFor(ctx, h, observers, reserved); err != nil || g.Why != "" {
		return err
	}
	g.Open, err = guard.Intruders(ctx, h, reserved)
	if errors.Is(err, gpu.ErrPartial) {
		err = nil // the processes that were looked at; the daemon may look at all
	}
	return err
}

// sliceProblems are reservations whose units do not start.
func sliceProblems(h *host.Host, list []config.Reservation) []status.Problem {
	var out []status.Problem
	for _, r := range list {
		if e := reservation.CheckSlice(h, r, true); e != nil {
			out = append(out, status.Problem{State: status.Unmet, Text: e.Error(), Hint: e.Hint()})
		}
	}
	return out
}

// KnownGPUs is the daemon's file of the GPUs of the last success.
func KnownGPUs(h *host.Host) string { return h.Path("var/lib/dcm", status.KnownFile) }

// Expected says how many GPUs there should be, beside those that are there. What was
// known of them and cannot be read is as if nothing was.
func Expected(h *host.Host, cfg *config.Config, there []string) status.Expected {
	known, _ := status.ReadKnown(KnownGPUs(h))
	return status.Expect(cfg.Count, known, there)
}

func about(h *host.Host) status.Host {
	out := status.Host{Boot: h.BootID(), Kernel: h.Kernel()}
	name, _ := os.ReadFile(h.Path("proc/sys/kernel/hostname"))
	out.Name = sanitize.Text(strings.TrimSpace(string(name)))
	return out
}

func settings(h *host.Host, cfg *config.Config) status.Settings {
	if cfg == nil {
		return status.Settings{}
	}
	return status.Settings{Profile: cfg.Selected, Source: cfg.Source, UntilReboot: host.UntilReboot(h, cfg), Lasting: cfg.Persistent,
		Defined: cfg.Names(), Warnings: cfg.Warnings, Count: cfg.Count}
}

// lastRun is the last run of this boot. One that has ended without a word was
// killed.
func lastRun(h *host.Host) (*runstate.Run, error) {
	run, err := runstate.ReadRun(h.Runtime())
	if run == nil || run.Boot != "" && run.Boot != h.BootID() {
		return nil, err
	}
	if run.Result == runstate.Running {
		if _, gone := os.Stat(h.Path("proc", strconv.Itoa(run.PID))); errors.Is(gone, fs.ErrNotExist) {
			run.Result = runstate.Killed
		}
	}
	return run, err
}

// restartedUnits are the clients, and what else the last restart took down.
func restartedUnits(h *host.Host, cfg *config.Config, s *runstate.State) []string {
	var all []string
	if cfg != nil {
		all = slices.Clone(host.Clients(h, cfg))
	}
	if s == nil {
		return all
	}
	for _, c := range s.Clients {
		if !config.Lists(all, c.Unit) {
			all = append(all, c.Unit)
		}
	}
	return all
}

// UnitStates asks systemd how dcm's units are, and these clients; if all is wanted, how
// often it has restarted them, too.
func UnitStates(ctx context.Context, h *host.Host, clients []string, all bool) (status.UnitStates, error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return status.UnitStates{}, err
	}
	defer conn.Close()
	var out status.UnitStates
	own, err := conn.Units.List(ctx, []string{unitname.Daemon, unitname.Apply, unitname.Reserve}, systemd.Inactive)
	if err != nil {
		return out, err
	}
	for _, u := range own {
		if u.Name == unitname.Reserve && u.Active != "failed" {
			continue // it runs for a change of reservations only
		}
		enabled, err := conn.Units.Enabled(ctx, u.Name)
		if err != nil {
			return out, err
		}
		out.Own = append(out.Own, status.Unit{Unit: u.Name, Load: u.Load, Active: u.Active, Sub: u.Sub, Result: u.Result,
			Ran: u.Active == "active" || u.Invocation != "", Enabled: enabled})
	}
	fields := systemd.Inactive
	if all {
		fields = systemd.Restarts
	}
	units, err := conn.Units.List(ctx, clients, fields)
	for _, u := range units {
		out.Clients = append(out.Clients, status.Client{Unit: u.Name, Load: u.Load, Active: u.Active, Sub: u.Sub, Result: u.Result,
			Restarts: u.Restarts, Ran: u.Active == "active" || u.Invocation != "", Invocation: u.Invocation})
		if u.Done() {
			out.Done = append(out.Done, u.Name)
		}
	}
	return out, err
}
