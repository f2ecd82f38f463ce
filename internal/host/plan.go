package host

import (
	"context"
	"fmt"
	"strings"

	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/partition"
)

// Compare plans the named profile, or the selected one.
func (h *Host) Compare(ctx context.Context, named ...string) (*config.Config, apply.Difference, string, error) {
	cfg, err := h.Config()
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	profile, err := Choose(cfg, named...)
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	devices, err := h.Node(cfg).Devices(ctx)
	if err != nil {
		return nil, apply.Difference{}, "", err
	}
	d, err := apply.Compare(devices, profile)
	if err == nil && len(d.Steps) > 0 {
		err = d.Judge(Fits(cfg.Reservations))
	}
	return cfg, d, profile.Name, err
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

// Restarted returns the units that a restart transaction would bounce now.
func (h *Host) Restarted(ctx context.Context, clients []string) ([]string, error) {
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
	for _, u := range units {
		if u.Active == "active" || u.Active == "activating" || u.Active == "reloading" {
			out = append(out, u.Name)
		}
	}
	more, err := conn.Dependents(ctx, out)
	return append(out, more...), err
}
