package gather

import (
	"context"
	"errors"
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
	"dcm/internal/linux/procstat"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
	"dcm/internal/sanitize"
)

// Options are the sources of a status other than the files of the host.
type Options struct {
	Config func() (*config.Config, error)                  // the effective configuration, and the error of the one on disk
	State  func(context.Context) (*runstate.State, error)  // state of the daemon
	GPUs   func(context.Context) (status.Inventory, error) // nil: [Inventory]
	All    bool                                            // include slow parts: all processes and the details of all partitions
	Busy   bool                                            // systemd is busy: do not query it
	Held   func(context.Context) (status.HeldParts, error) // the holders of the partitions; nil if the caller does not read them
	Lost   func() *status.Problem                          // returns the problem of drop-ins that systemd has not loaded; nil if the caller does not check them
}

// Sources returns the functions that read the status of this host.
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
		Known: func(context.Context) (runstate.Known, error) { return runstate.ReadKnown(h.KnownGPUs()) },
	}
	if s.GPUs == nil {
		s.GPUs = func(ctx context.Context) (status.Inventory, error) {
			return Inventory(ctx, h, cfg, status.Inventory{}, o.All)
		}
	}
	if h.Here() && !o.Busy {
		s.Held = o.Held
		s.Units = func(ctx context.Context) (status.UnitStates, error) {
			state, _ := o.State(ctx) // its error is reported with the daemon
			clients := configuredClients(h, cfg)
			units, err := UnitStates(ctx, h, clients, otherUnits(clients, state), o.All)
			had, unread := runstate.ReadGPUClients(h.GPUClients(), h.BootID())
			units.Had = had.Clients
			return units, errors.Join(err, unread)
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

// reservationState returns the reservations with their chosen partitions, and the state of the guard.
// If the configuration has errors, it also returns the units whose reservations cannot be read.
func reservationState(ctx context.Context, h *host.Host, cfg *config.Config, broken, busy bool) (status.ReservationState, error) {
	var out status.ReservationState
	if cfg != nil {
		out.Wrong = sliceProblems(h, cfg.Reservations)
	}
	for _, invalid := range runstate.Invalid(h.Runtime(), h.KnownGPUs()) {
		out.Wrong = append(out.Wrong, status.Problem{State: status.Unseen, Text: invalid.Error(), Hint: "systemctl restart dcm moves it aside, or writes it again"})
	}
	out.Notes = drain.Notes(h)
	if cfg != nil {
		out.Notes = append(out.Notes, reservation.Elsewhere(h, cfg.Observers)...)
	}
	if broken {
		_, out.Open = reservation.Reservations(h)
	}
	p, err := runstate.ReadReservations(h.Runtime())
	if err != nil {
		return out, err
	}
	reserved := false
	if p != nil {
		for _, r := range p.Reservations {
			out.List = append(out.List, status.Reserved{Name: r.Name, Unit: r.Unit, Wants: r.Wants, Partitions: r.Partitions, Exclusive: r.Exclusive, Share: r.Share, Make: r.Make, Reason: r.Reason})
		}
		reserved = exclusive.Any(p.Reservations, nil)
	}
	g, err := runstate.ReadGuard(h.Runtime())
	if err != nil || g == nil && len(out.List) == 0 {
		return out, err
	}
	leased := false
	if g != nil {
		out.Guard = status.Guard{Loaded: g.Loaded, Devices: g.Devices, Why: g.Why, Unconfined: g.Unconfined, Uncapped: g.Uncapped}
		leased = slices.ContainsFunc(g.Table, func(one runstate.Guarded) bool { return exclusive.Lease(one.Holder) })
	}
	if guard.IsOff(h) {
		out.Guard.Why = guard.OffReason
	}
	if out.Guard.Why == "" && h.Here() && !busy && (reserved || leased) {
		err = addGuardProblems(ctx, h, cfg, &out.Guard, reserved)
	}
	return out, err
}

// addGuardProblems sets which processes have an exclusive partition open without permission. If a reservation is
// exclusive, it sets why the guard's table does not match the reservations. For that it ignores leases, since a
// new lease may not be in the table yet.
func addGuardProblems(ctx context.Context, h *host.Host, cfg *config.Config, g *status.Guard, reserved bool) error {
	var observers []string
	if cfg != nil {
		observers = cfg.Observers
	}
	var err error
	if reserved {
		g.Why, err = guard.DueFor(ctx, h, observers, func(holder string) bool { return !exclusive.Lease(holder) })
		if err != nil || g.Why != "" {
			return err
		}
	}
	g.Open, err = guard.Intruders(ctx, h, func(string) bool { return true })
	if errors.Is(err, gpu.ErrPartial) {
		err = nil // only some processes could be inspected; the daemon can inspect all
	}
	return err
}

// sliceProblems returns the reservations whose units do not start because of their slice.
func sliceProblems(h *host.Host, list []config.Reservation) []status.Problem {
	var out []status.Problem
	for _, r := range list {
		if e := reservation.CheckSlice(h, r, true); e != nil {
			out = append(out, status.Problem{State: status.Unmet, Text: e.Error(), Hint: e.Hint()})
		}
	}
	return out
}

// Expected returns the expected GPUs. there are the addresses of those that exist. If the daemon's
// file cannot be read, no GPU is known.
func Expected(h *host.Host, cfg *config.Config, there []string) status.Expected {
	known, _ := runstate.ReadKnown(h.KnownGPUs())
	return status.Expect(cfg.Count, known.GPUs, there)
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
	var unconfirmed *status.Unconfirmed
	if u := cfg.Unconfirmed; u != nil {
		unconfirmed = &status.Unconfirmed{Deadline: u.Deadline, Former: u.Former, Permanent: u.Permanent}
	}
	return status.Settings{Unconfirmed: unconfirmed, Profile: cfg.Selected, Source: cfg.Source, UntilReboot: host.UntilReboot(h, cfg), Persistent: cfg.Persistent,
		Defined: cfg.Names(), Warnings: cfg.Warnings, Count: cfg.Count}
}

// lastRun returns the last run of this boot. If its process has ended without a result, it was killed.
func lastRun(h *host.Host) (*runstate.Run, error) {
	run, err := runstate.ReadRun(h.Runtime())
	if run == nil || run.Boot != "" && run.Boot != h.BootID() {
		return nil, err
	}
	if run.Result == runstate.Running {
		if procstat.Ended(h.Path("proc", strconv.Itoa(run.PID))) {
			run.Result = runstate.Killed
		}
	}
	return run, err
}

func configuredClients(h *host.Host, cfg *config.Config) []string {
	if cfg == nil {
		return nil
	}
	return slices.Clone(host.Clients(h, cfg))
}

// otherUnits returns the units of the last restart that are no clients now: they depended on one, or were removed from
// the configuration.
func otherUnits(clients []string, s *runstate.State) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, c := range s.Clients {
		if !config.Lists(clients, c.Unit) {
			out = append(out, c.Unit)
		}
	}
	return out
}

// UnitStates returns the states of dcm's units and of the clients, from systemd. If all is set, it also
// reads the clients' numbers of restarts. Of the others it has those that stop with a client.
func UnitStates(ctx context.Context, h *host.Host, clients, others []string, all bool) (status.UnitStates, error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return status.UnitStates{}, err
	}
	defer conn.Close()
	var out status.UnitStates
	own, err := conn.Units.List(ctx, []string{unitname.Daemon, unitname.Apply, unitname.Change, unitname.Reserve}, systemd.Inactive)
	if err != nil {
		return out, err
	}
	for _, u := range own {
		switch {
		case u.Name == unitname.Reserve && u.Active != "failed":
			continue // it runs for a change of reservations only
		case u.Name == unitname.Change && u.Active != "failed" && u.Active != "activating":
			continue // it runs for a change of single GPUs only
		}
		enabled, err := conn.Units.Enabled(ctx, u.Name)
		if err != nil {
			return out, err
		}
		out.Own = append(out.Own, status.Unit{Unit: u.Name, Load: u.Load, Active: u.Active, Sub: u.Sub, Result: u.Result,
			Ran: u.Active == "active" || u.Invocation != "", Enabled: enabled})
	}
	failed, err := conn.Units.Failed(ctx, []string{unitname.Make, unitname.Clean, unitname.Guard, unitname.Gate, unitname.Agent})
	if err != nil {
		return out, err
	}
	for _, u := range failed {
		out.Own = append(out.Own, status.Unit{Unit: u.Name, Load: u.Load, Active: u.Active, Sub: u.Sub, Result: u.Result, Ran: true})
	}
	fields := systemd.Inactive
	if all {
		fields = systemd.Restarts
	}
	concerned := func(unit string) bool { return config.Lists(clients, unit) || slices.Contains(unitname.Runs(), unit) }
	if with, unknown := conn.Dependencies.StoppedWith(ctx, others, concerned); unknown == nil {
		others = with
	}
	units, err := conn.Units.List(ctx, slices.Concat(clients, others), fields)
	for _, u := range units {
		out.Clients = append(out.Clients, status.Client{Unit: u.Name, Load: u.Load, Active: u.Active, Sub: u.Sub, Result: u.Result,
			Restarts: u.Restarts, Ran: u.Active == "active" || u.Invocation != "", Invocation: u.Invocation})
		if u.Done() {
			out.Done = append(out.Done, u.Name)
		}
	}
	return out, err
}
