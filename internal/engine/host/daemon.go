package host

import (
	"context"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// DaemonDown returns when dcm.service neither runs nor is about to start, with its
// ActiveState; "not-found" or "masked" if it cannot be started.
func (h *Host) DaemonDown(ctx context.Context) (string, error) {
	conn, err := h.DialToWait(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	for {
		units, err := conn.Units.Settle(ctx, []string{unitname.Daemon}, systemd.Unit.Settled)
		if err != nil {
			return "", err
		}
		switch u := units[0]; {
		case u.Active == "active":
			if err := conn.Units.Changed(ctx, map[string]string{unitname.Daemon: u.Active}); err != nil {
				return "", err
			}
		case u.Load == "not-found" || u.Load == "masked":
			return u.Load, nil
		default:
			return u.Active, nil
		}
	}
}
