package daemon

import (
	"context"
	"log/slog"
	"time"

	"dcm/internal/linux/systemd"
	"dcm/internal/linux/unitname"
)

// If an administrator starts the daemon and the start fails, it ends with the reason. systemd makes
// the next start itself, after RestartSec=. The daemon that systemd started does not exit on a
// failure; it waits and retries. So the daemon implements the back-off itself and saves its state
// across restarts.

// ownUnitTimeout limits the query of the daemon's own unit.
const ownUnitTimeout = 5 * time.Second

// origin is how the daemon was started.
type origin struct {
	dial func(context.Context) (PID1, error)
	log  *slog.Logger
	unit *systemd.Unit // the daemon's; nil until it was read
}

// bySystemd reports whether systemd has started this daemon, after one that failed or was
// killed. A start by an administrator resets systemd's count. If PID 1 cannot be queried it is
// false: then the start fails, and the next one queries it again.
func (o *origin) bySystemd(ctx context.Context) bool {
	if o.unit == nil {
		o.unit = &systemd.Unit{}
		ctx, cancel := context.WithTimeout(ctx, ownUnitTimeout)
		defer cancel()
		if err := o.read(ctx); err != nil {
			o.log.Warn("cannot determine how the daemon was started", "error", err)
		}
	}
	return o.unit.Restarts > 0
}

func (o *origin) read(ctx context.Context) error {
	pid1, err := o.dial(ctx)
	if err != nil {
		return err
	}
	units, err := pid1.States.List(ctx, []string{unitname.Daemon}, systemd.All)
	if err == nil && len(units) > 0 {
		o.unit = &units[0]
	}
	if closed := pid1.Close(); err == nil {
		err = closed
	}
	return err
}
