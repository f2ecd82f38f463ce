package service

import (
	"context"
	"log/slog"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
	"dcm/internal/linux/systemd"
)

// newClientWatch returns the watch of this host. It continues the list of the last daemon, also of an earlier boot.
func newClientWatch(h *host.Host, cfg func() *config.Config, changed func(), log *slog.Logger) *clientWatch {
	node := host.OpenNode(h, nil)
	w := &clientWatch{
		rules: func() clientRules { return clientRulesOf(h, cfg()) },
		scan:  func(ctx context.Context, units []string) (clientScan, error) { return scanClients(ctx, h, node, units) },
		await: func(ctx context.Context, units []string) error { return awaitUnits(ctx, h, units) },
		write: func(g runstate.GPUClients) error { return runstate.GPUClientsIn(h.GPUClients()).Write(g) },

		changed: changed, log: log, nudged: make(chan struct{}, 1),
	}
	var err error
	if w.list, err = runstate.ReadGPUClients(h.GPUClients(), h.BootID()); err != nil {
		log.Warn(err.Error())
	}
	return w
}

func clientRulesOf(h *host.Host, cfg *config.Config) clientRules {
	if cfg == nil {
		return clientRules{expected: func(string) bool { return false }}
	}
	clients := host.Clients(h, cfg)
	return clientRules{cfg.SettleTime, func(unit string) bool { return config.Lists(clients, unit) && cfg.OpensAlways(unit) }}
}

// scanClients scans the processes, and reads the states of the units.
func scanClients(ctx context.Context, h *host.Host, node *gpu.Node, units []string) (out clientScan, err error) {
	devices, err := node.Devices(ctx)
	if err != nil {
		return out, err
	}
	u, err := node.Usage(ctx)
	if err != nil {
		return out, err
	}
	out.open, out.unknown = openGPUs(u, devices), make(map[string]bool)
	for _, p := range u.Uninspected {
		out.unknown[gpu.UnitOf(h.Path("proc"), p.PID)] = true
	}
	out.units, err = clientUses(ctx, h, units)
	return out, err
}

// clientUses reads the states of units. Those that are not loaded have none.
func clientUses(ctx context.Context, h *host.Host, units []string) (map[string]runstate.ClientUse, error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	now, err := conn.Units.Availability(ctx, units)
	out := make(map[string]runstate.ClientUse)
	for _, u := range now {
		up := u.Up() || u.Job
		out[u.ID] = runstate.ClientUse{Active: u.Active == "active", Starting: up && u.Active != "active", ActiveFor: u.ActiveFor}
	}
	return out, err
}

// awaitUnits returns when the state of a unit differs from its state at the call.
func awaitUnits(ctx context.Context, h *host.Host, units []string) error {
	conn, err := h.DialToWait(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	now, err := conn.Units.List(ctx, units, systemd.States)
	if err != nil {
		return err
	}
	had := make(map[string]string)
	for _, u := range now {
		had[u.Name] = u.Active
	}
	return conn.Units.Changed(ctx, had)
}
