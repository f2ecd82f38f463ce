package client

import (
	"context"

	"dcm/internal/engine/config"
	"dcm/internal/engine/daemon"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/linux/systemd"
)

// Holders returns the processes that have a GPU open, and the leases.
func Holders(a status.Account) []runstate.Holder {
	var out []runstate.Holder
	for _, u := range a.Holders {
		h := runstate.Holder{PID: u.PID, Command: u.Command, Unit: u.Unit, Devices: u.Devices, Lessee: u.Lessee, Leased: u.Leased}
		for _, a := range u.Attached {
			h.Attached = append(h.Attached, partition.Address(a))
		}
		out = append(out, h)
	}
	return out
}

// Foresee queries PID 1 for the units that a run would restart now, given the processes that
// block it.
func Foresee(ctx context.Context, h *host.Host, cfg *config.Config, blocking []runstate.Holder) (daemon.Forecast, error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return daemon.Forecast{}, err
	}
	defer conn.Close()
	s := daemon.Settings{Order: systemd.Order{Clients: host.Clients(h, cfg)}, Include: cfg.Discover == config.Include}
	return daemon.Foresee(ctx, daemon.PID1Of(conn), s, func(units []string) []string { return host.DiscoverableUnits(h, units) }, blocking)
}
