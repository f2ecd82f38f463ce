package service

import (
	"context"
	"log/slog"

	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/filelock"
	"dcm/internal/linux/systemd"
)

// include adds units to the discovered clients.
func include(h *host.Host) func(units []string) error {
	return func(units []string) error {
		found, _ := runstate.ReadDiscovered(h.Runtime())
		return runstate.WriteDiscovered(h.Runtime(), append(found, units...))
	}
}

// forgetDiscovered drops the discovered clients that are down permanently: their drop-ins go with
// the next reload of systemd. One that a restart under way holds back has a job, and is not down.
func forgetDiscovered(ctx context.Context, h *host.Host, log *slog.Logger) {
	found, err := runstate.ReadDiscovered(h.Runtime())
	if err == nil && len(found) == 0 {
		return
	}
	if busy, err := filelock.Held(h.Locks().Run()); err != nil || busy {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	conn, err := h.Dial(ctx)
	if err != nil {
		return // they stay
	}
	defer conn.Close()
	units, err := conn.Units.List(ctx, found, systemd.All)
	if err != nil {
		return
	}
	var still []string
	for _, u := range units {
		if u.Job || u.Active != "inactive" && u.Active != "failed" {
			still = append(still, u.Name)
		}
	}
	if err := runstate.WriteDiscovered(h.Runtime(), still); err != nil {
		log.Warn(err.Error())
	}
}
