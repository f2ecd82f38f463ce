package slurmcmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"dcm/internal/app/cli/client"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/slurm"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/sanitize"
)

// switching is locked while slurmd waits for a change that it requested.
func switching(h *host.Host) string { return h.Path("run/dcm/slurm.lock") }

// featured returns the features of this host, and those that its GPUs have now.
func featured(ctx context.Context, h *host.Host) (all map[string]string, active []string, err error) {
	cfg, err := h.Effective() // an edit with an error removes no feature
	if cfg == nil {
		return nil, nil, err
	}
	devices, err := gather.Devices(ctx, host.OpenNode(h, nil), client.FromDaemon(h))
	if err != nil {
		return nil, nil, err
	}
	all, err = slurm.Features(attainable(cfg, devices))
	if err != nil {
		return nil, nil, exitcode.With(exitcode.Config, err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, err := cfg.Lookup(all[name])
		if err != nil {
			continue
		}
		if d, err := apply.Compare(devices, p); err == nil && len(d.Steps) == 0 {
			active = append(active, name)
		}
	}
	return all, active, nil
}

// attainable returns the profiles that these GPUs support.
func attainable(cfg *config.Config, devices []gpu.Device) []string {
	return slices.DeleteFunc(cfg.Available(gpu.Partitionable(devices)), func(name string) bool {
		p, err := cfg.Lookup(name)
		if err == nil {
			_, err = apply.Compare(devices, p)
		}
		return err != nil
	})
}

// nodeName returns Slurm's name of this host: SLURMD_NODENAME, or else the host name without
// its domain.
func nodeName(ctx context.Context, h *host.Host) string {
	if name := sanitize.Env("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(client.Account(ctx, h).Host.Name, ".")
	return name
}
