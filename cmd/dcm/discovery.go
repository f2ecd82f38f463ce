package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"dcm/internal/apply"
	"dcm/internal/config"
	"dcm/internal/report"
)

// clients are the configured clients and, if that is configured, those that the
// daemon has found in this boot. A file of them that cannot be read is as none: what
// it named is found again.
func (h *host) clients(cfg *config.Config) []string {
	if cfg.Discover != config.Include {
		return cfg.Clients
	}
	all := slices.Clone(cfg.Clients)
	found, _ := report.ReadDiscovered(h.runtime())
	for _, unit := range found {
		if config.Discoverable(unit) && !config.Lists(all, unit) {
			all = append(all, unit)
		}
	}
	return all
}

// fit returns those of the units that could be clients. A transient service is a
// job that somebody has started by hand (systemd-run), and would begin anew.
func (h *host) fit(units []string) []string {
	return slices.DeleteFunc(slices.Clone(units), func(unit string) bool {
		_, err := os.Lstat(h.path("run/systemd/transient", unit))
		return !config.Discoverable(unit) || !errors.Is(err, fs.ErrNotExist)
	})
}

// include remembers units as clients, beside those remembered.
func (h *host) include(units []string) error {
	found, _ := report.ReadDiscovered(h.runtime())
	return report.WriteDiscovered(h.runtime(), append(found, units...))
}

// forget drops the discovered clients that are down for good: their drop-ins go with
// the next reload of systemd. One that a restart under way holds back has a job, and
// is not down.
func (h *host) forget(ctx context.Context, log *slog.Logger) {
	found, err := report.ReadDiscovered(h.runtime())
	if err == nil && len(found) == 0 {
		return
	}
	if busy, err := apply.UnderWay(h.lock()); err != nil || busy {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := h.dial(ctx)
	if err != nil {
		return // they stay
	}
	defer conn.Close()
	units, err := conn.Units(ctx, found)
	if err != nil {
		return
	}
	var still []string
	for _, u := range units {
		if u.Job || u.Active != "inactive" && u.Active != "failed" {
			still = append(still, u.Name)
		}
	}
	if err := report.WriteDiscovered(h.runtime(), still); err != nil {
		log.Warn(err.Error())
	}
}
