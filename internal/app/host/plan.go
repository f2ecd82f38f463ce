package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// Compare plans the named profile, or the selected one. GPUs that are kept from this
// process are as the daemon tells.
func (h *Host) Compare(ctx context.Context, daemon Told, named ...string) (*config.Config, apply.Difference, string, error) {
	cfg, err := h.Config()
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	look := func(ctx context.Context) ([]gpu.Device, error) { return Look(ctx, h.Node(cfg), daemon) }
	d, name, err := h.compare(ctx, cfg, look, named...)
	return cfg, d, name, err
}

// CompareOn plans the named profile, or the selected one, for a node, and judges whether
// the reservations fit what comes of it.
func (h *Host) CompareOn(ctx context.Context, cfg *config.Config, node *gpu.Node, named ...string) (apply.Difference, string, error) {
	return h.compare(ctx, cfg, node.Devices, named...)
}

func (h *Host) compare(ctx context.Context, cfg *config.Config, look func(context.Context) ([]gpu.Device, error), named ...string) (apply.Difference, string, error) {
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
		err = d.Judge(h.Fits(cfg.Reservations))
	}
	return d, profile.Name, err
}

// Choose returns the named profile, or the selected one.
func Choose(cfg *config.Config, named ...string) (partition.Profile, error) {
	if len(named) > 0 {
		return cfg.Lookup(named[0])
	}
	if cfg.Selected == "" {
		return partition.Profile{}, fmt.Errorf("no profile is selected: name one (%s), or set profile in /etc/dcm/dcm.toml", quoted(cfg.Names()))
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
func (h *Host) Restarted(ctx context.Context, clients []string, holding ...string) ([]string, error) {
	out := []string{}
	if len(clients) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return out, err
	}
	defer conn.Close()
	units, err := conn.Units(ctx, clients)
	if err != nil {
		return out, err
	}
	bounced, err := systemd.RestartedUnits(ctx, conn, unitname.Apply, units)
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
			frozen, err := conn.Frozen(ctx, unit)
			behind := err == nil && slices.ContainsFunc(clients, func(c systemd.Unit) bool { return c.ID == unit })
			if err == nil && !behind {
				behind, err = conn.OrderedAfter(ctx, unit, unitname.Apply, all)
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
