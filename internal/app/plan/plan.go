package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/reservation"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Compare plans the named profile, or the selected one. GPUs that this process may
// not read are taken from the daemon's status.
func Compare(ctx context.Context, h *host.Host, daemon gather.DaemonStatus, named ...string) (*config.Config, apply.Difference, string, error) {
	cfg, err := h.Config()
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	look := func(ctx context.Context) ([]gpu.Device, error) {
		return gather.Devices(ctx, host.OpenNode(h, cfg), daemon)
	}
	d, name, err := compare(ctx, h, cfg, look, named...)
	return cfg, d, name, err
}

// CompareOn plans the named profile, or the selected one, for a node, and judges whether
// the reservations fit what comes of it.
func CompareOn(ctx context.Context, h *host.Host, cfg *config.Config, node *gpu.Node, named ...string) (apply.Difference, string, error) {
	return compare(ctx, h, cfg, node.Devices, named...)
}

func compare(ctx context.Context, h *host.Host, cfg *config.Config, look func(context.Context) ([]gpu.Device, error), named ...string) (apply.Difference, string, error) {
	profile, err := Choose(cfg, named...)
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

// Choose returns the named profile, or the selected one.
func Choose(cfg *config.Config, named ...string) (partition.Profile, error) {
	if len(named) > 0 {
		return cfg.Lookup(named[0])
	}
	if cfg.Selected == "" {
		names := ""
		if len(cfg.Profiles) > 0 {
			names = " (" + quoted(cfg.Names()) + ")"
		}
		return partition.Profile{}, fmt.Errorf("no profile is selected: name one%s, or set profile in /etc/dcm/dcm.toml", names)
	}
	return cfg.Profile, nil
}

// quoted joins names for a message and cuts a long list short.
func quoted(all []string) string {
	const most = 12
	if len(all) > most {
		return strings.Join(all[:most], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}

// Restarted returns the units that a restart transaction would bounce now, without those
// of the units that have a GPU open which it would not free: see the daemon's hindrances.
func Restarted(ctx context.Context, h *host.Host, clients []string, holding ...string) ([]string, error) {
	out := []string{}
	if len(clients) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	units, err := conn.Units.List(ctx, clients, systemd.All)
	if err != nil {
		return out, err
	}
	bounced, err := systemd.RestartedUnits(ctx, conn.Units, conn.Dependencies, unitname.Apply, units)
	for _, u := range bounced {
		out = append(out, u.ID)
	}
	if err != nil {
		return out, err
	}
	return without(ctx, conn, out, units, holding)
}

func without(ctx context.Context, conn *systemd.Conn, bounced []string, clients []systemd.Unit, holding []string) ([]string, error) {
	all, out := slices.Clone(bounced), bounced[:0]
	for _, unit := range all {
		freed := true
		if slices.Contains(holding, unit) {
			frozen, err := conn.Units.Frozen(ctx, unit)
			behind := err == nil && slices.ContainsFunc(clients, func(c systemd.Unit) bool { return c.ID == unit })
			if err == nil && !behind {
				behind, err = conn.Dependencies.OrderedAfter(ctx, unit, unitname.Apply, all)
			}
			if err != nil {
				return all, err
			}
			freed = behind && !frozen
		}
		if freed {
			out = append(out, unit)
		}
	}
	return out, nil
}
