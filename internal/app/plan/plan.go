package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/systemd"
	"dcm/internal/text"
)

// Compare plans the named profile, or the selected one. GPUs that this process may
// not read are taken from the daemon's status.
func Compare(ctx context.Context, h *host.Host, daemon gather.DaemonStatus, named ...string) (*config.Config, apply.Difference, string, error) {
	cfg, err := h.Config()
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	readable := true
	look := func(ctx context.Context) ([]gpu.Device, error) {
		devices, err := gather.Devices(ctx, host.OpenNode(h, cfg), daemon)
		readable = len(devices) == 0 || len(gpu.Partitionable(devices)) > 0
		return devices, err
	}
	d, name, err := compare(ctx, h, cfg, look, named...)
	if _, unknown := errors.AsType[*config.UnknownProfileError](err); err != nil && !readable && !unknown {
		if a, absent := daemon(ctx); absent == nil && a.Running() {
			err = ErrChanging
		}
	}
	return cfg, d, name, err
}

// ErrChanging is the error of a plan while a run reloads the driver.
var ErrChanging = exitcode.With(exitcode.Transient, errors.New("the GPUs cannot be read while a change reloads their driver\nhint: run the command again after the change; dcm status shows its progress"))

// CompareOn plans the named profile, or the selected one, for a node, and judges whether
// the reservations fit what comes of it.
func CompareOn(ctx context.Context, h *host.Host, cfg *config.Config, node *gpu.Node, named ...string) (apply.Difference, string, error) {
	return compare(ctx, h, cfg, node.Devices, named...)
}

func compare(ctx context.Context, h *host.Host, cfg *config.Config, look func(context.Context) ([]gpu.Device, error), named ...string) (apply.Difference, string, error) {
	profile, err := Choose(cfg, named...)
	if _, unknown := errors.AsType[*config.UnknownProfileError](err); unknown {
		return apply.Difference{}, "", onThese(ctx, cfg, look, named[0], err)
	}
	if err != nil {
		return apply.Difference{}, "", err
	}
	devices, err := look(ctx)
	if err != nil {
		return apply.Difference{}, "", err
	}
	d, err := apply.Compare(devices, profile)
	if err == nil && len(d.Steps) > 0 {
		err = d.Judge(reservation.Fits(h, cfg.Reservations))
	}
	return d, profile.Name, err
}

// OtherVendor returns a remark about the GPUs of a vendor that the profile is not for; "" if there are none.
func OtherVendor(d apply.Difference, profile string) string {
	left, covered := make(map[partition.Vendor]int), make(map[partition.Vendor]bool)
	for _, g := range d.GPUs {
		if d.Want.Skipped[g.Address] {
			left[g.Vendor]++
		} else {
			covered[g.Vendor] = true
		}
	}
	for vendor, n := range left {
		if !covered[vendor] && len(covered) > 0 {
			return fmt.Sprintf("%s %s left alone; 'dcm use %s+PROFILE' selects a profile for each vendor", text.Count(n, vendor.String()+" GPU"), map[bool]string{true: "is", false: "are"}[n == 1], profile)
		}
	}
	return ""
}

// onThese returns the error of an unknown profile with the profiles that fit the GPUs. If the GPUs cannot be read, it
// returns err.
func onThese(ctx context.Context, cfg *config.Config, look func(context.Context) ([]gpu.Device, error), name string, err error) error {
	devices, absent := look(ctx)
	if absent != nil {
		return err
	}
	_, err = cfg.LookupOn(gpu.Partitionable(devices), name)
	return err
}

// Choose returns the named profile, or the selected one.
func Choose(cfg *config.Config, named ...string) (partition.Profile, error) {
	return ChooseOn(cfg, nil, named...)
}

// ChooseOn is [Choose] for known GPUs: the error of an unknown profile lists those that fit them.
func ChooseOn(cfg *config.Config, gpus []partition.GPU, named ...string) (partition.Profile, error) {
	if len(named) > 0 {
		return cfg.LookupOn(gpus, named[0])
	}
	if cfg.Selected == "" {
		return partition.Profile{}, errors.New("no profile is selected: name one, or select it in /etc/dcm/dcm.toml\nhint: 'dcm profiles' lists the names, and which of them fit the GPUs")
	}
	return cfg.Profile, nil
}

// Foresee queries PID 1 for the units that a run for the difference would restart now, and for the
// holders that would block it. blocking are the processes that keep the steps from succeeding.
func Foresee(ctx context.Context, h *host.Host, cfg *config.Config, d apply.Difference, blocking []runstate.Holder) (daemon.Forecast, error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return daemon.Forecast{}, err
	}
	defer conn.Close()
	return foresee(ctx, h, daemon.PID1Of(conn), cfg, d, blocking)
}

// foresee is [Foresee] with a connection to PID 1.
func foresee(ctx context.Context, h *host.Host, pid1 daemon.PID1, cfg *config.Config, d apply.Difference, blocking []runstate.Holder) (daemon.Forecast, error) {
	s := daemon.Settings{Budgets: Budgets(cfg), SettleTime: cfg.SettleTime, Require: cfg.Require, Order: systemd.Order{Clients: host.Clients(h, cfg)}, Include: cfg.Discover == config.Include}
	fit := func(units []string) []string { return host.DiscoverableUnits(h, units) }
	return daemon.Foresee(ctx, pid1, s, fit, Scope(h, cfg, d), blocking)
}

// Budgets returns the configured budgets.
func Budgets(cfg *config.Config) []daemon.Budget {
	var out []daemon.Budget
	for _, b := range cfg.Budgets {
		out = append(out, daemon.Budget{Units: b.Units, MaxDown: b.MaxDown})
	}
	return out
}

// Scope returns what the steps of a difference concern; nil: the whole node, as every change does
// unless the configuration says otherwise, see [config.Config.PerGPU].
func Scope(h *host.Host, cfg *config.Config, d apply.Difference) *daemon.Scope {
	last, err := runstate.ReadPartitions(h.Runtime())
	if err != nil {
		return nil
	}
	return ScopeOf(last, cfg, d)
}

// ScopeOf is [Scope] for a list of partitions; nil: there is none. Steps that keep the users of all
// partitions concern no client, whatever the configuration says.
func ScopeOf(last *runstate.Partitions, cfg *config.Config, d apply.Difference) *daemon.Scope {
	if len(d.Steps) == 0 || !d.SingleGPUs() || !d.Steps.KeepsUsers() && (last == nil || !cfg.PerGPU()) {
		return nil
	}
	out := &daemon.Scope{Total: len(d.Want.Shapes)}
	if d.Steps.KeepsUsers() {
		out.GPUs = d.Steps.GPUs()
		out.Known = func(string) bool { return true }
		out.Concerning = func(string) []partition.Address { return nil }
		return out
	}
	if cfg.Rounds() {
		out.Part = func(gpus []partition.Address, all []runstate.Holder) (*daemon.Scope, []runstate.Holder) {
			part := d.Only(gpus)
			return ScopeOf(last, cfg, part), part.InWay(all)
		}
		out.Without = func(blocking, all []runstate.Holder) (*daemon.Scope, []runstate.Holder) {
			rest := d.Without(d.BlockedBy(blocking))
			return ScopeOf(last, cfg, rest), rest.InWay(all)
		}
	}
	changed := make(map[string]bool) // partitions by name
	var divided []partition.Address  // the GPUs whose partitions change
	for _, c := range gpu.Changes(d.Steps, d.Devices) {
		out.GPUs = append(out.GPUs, c.GPU)
		if !c.KeepsUsers {
			divided = append(divided, c.GPU)
		}
		for _, p := range c.ChangedParts {
			changed[runstate.PartName(c.GPU, p.Index)] = true
		}
	}
	reserved := func(unit string) int {
		return slices.IndexFunc(cfg.Reservations, func(r config.Reservation) bool { return config.Lists([]string{r.Unit}, unit) })
	}
	out.Known = func(unit string) bool { return reserved(unit) >= 0 }
	out.Concerning = func(unit string) []partition.Address {
		i := reserved(unit)
		if i < 0 {
			return divided
		}
		wanted := cfg.Reservations[i]
		at := slices.IndexFunc(last.Reservations, func(r runstate.Reservation) bool { return r.Name == wanted.Name && r.Asks == wanted.Asks() })
		switch none := at >= 0 && len(last.Reservations[at].Partitions) == 0; {
		case none && wanted.Whole: // its GPUs were missing
			own, _ := partition.Select(wanted.GPUs, d.GPUs) // the error names those that still are
			return slices.DeleteFunc(slices.Clone(divided), func(a partition.Address) bool { return !slices.Contains(own, a) })
		case at < 0, none:
			return divided
		}
		return last.GPUsOf(last.Reservations[at], func(p runstate.Part) bool { return changed[p.Name] || wanted.Whole && slices.Contains(divided, p.GPU) })
	}
	return out
}
