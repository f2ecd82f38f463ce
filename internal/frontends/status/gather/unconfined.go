package gather

import (
	"context"
	"fmt"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status"
	"dcm/internal/leases/reservation"
)

// unconfined describes why a unit is not confined to its partitions. ok is false if it is confined.
func unconfined(c reservation.Confined) (u status.Unconfined, ok bool) {
	why := slices.Clone(c.Loaded)
	if c.Running != "" {
		why = append(why, c.Running)
	}
	hint := fmt.Sprintf("systemctl cat %s shows the files that set it: remove those that override 50-dcm.conf; then systemctl daemon-reload and systemctl restart %[1]s", c.Unit)
	switch {
	case c.Lease:
		hint = "dcm lease release " + c.Unit
	case len(c.Loaded) == 0:
		hint = "systemctl restart " + c.Unit
	}
	return status.Unconfined{Unit: c.Unit, Why: why, Hint: hint}, len(why) > 0
}

// confinement returns the units with partitions that systemd does not confine.
func confinement(ctx context.Context, h *host.Host, cfg *config.Config) (status.Confinement, error) {
	reserved := reservation.ReservedUnits(h, cfg)
	if len(reserved) == 0 && len(host.LeaseUnits(h)) == 0 {
		return status.Confinement{}, nil
	}
	// PID 1 does not answer during a daemon-reload. The limit is that of the part.
	conn, err := h.Dial(ctx)
	if err != nil {
		return status.Confinement{}, err
	}
	defer conn.Close()
	units, err := reservation.ReadConfined(ctx, h, conn.Cgroups, reserved)
	var out status.Confinement
	for _, c := range units {
		if u, wrong := unconfined(c); wrong {
			out.Unconfined = append(out.Unconfined, u)
		}
	}
	return out, err
}
