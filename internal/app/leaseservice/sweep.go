package leaseservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"dcm/internal/engine/host"
	"dcm/internal/leases/lease"
	"dcm/internal/linux/unitname"
)

// EndEmptyScopes ends scopes of leases, and of waiting processes, that have no process. Their
// processes exited while the daemon moved them, and the daemon ended before it noticed that. No
// process enters such a scope any more.
func EndEmptyScopes(ctx context.Context, h *host.Host, log *slog.Logger) {
	p := processes{h}
	if len(p.emptyScopes()) == 0 {
		return // the usual case, without a call to PID 1
	}
	conn, err := h.Dial(ctx)
	if err != nil {
		return // without systemd there are no leases
	}
	defer conn.Close()
	list, err := conn.Cgroups.UnitsInSlice(ctx, unitname.Slice, false)
	for _, t := range list {
		if lease.Made(t.Unit) && t.Active == "active" && p.unpopulated(t.Unit) {
			log.Info("ending a scope without processes", "unit", t.Unit)
			err = errors.Join(err, conn.Jobs.Stop(ctx, t.Unit))
		}
	}
	if err != nil {
		log.Warn(fmt.Sprintf("cannot end the scopes without processes: %v", err))
	}
}
