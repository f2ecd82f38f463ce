package host

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
)

// Clients are the configured clients, the services that partitions are reserved for
// and, if that is configured, those that the daemon has found in this boot. A file of them that cannot be read is as none: what
// it named is found again.
func Clients(h *Host, cfg *config.Config) []string {
	all := slices.Clone(cfg.Clients)
	for _, r := range cfg.Reservations {
		if r.Unit != "" && !config.Lists(all, r.Unit) {
			all = append(all, r.Unit)
		}
	}
	if cfg.Discover != config.Include {
		return all
	}
	found, _ := runstate.ReadDiscovered(h.Runtime())
	for _, unit := range found {
		if config.Discoverable(unit) && !config.Lists(all, unit) {
			all = append(all, unit)
		}
	}
	return all
}

// DiscoverableUnits returns those of the units that could be clients. A transient service is a
// job that somebody has started by hand (systemd-run), and would begin anew.
func DiscoverableUnits(h *Host, units []string) []string {
	return slices.DeleteFunc(slices.Clone(units), func(unit string) bool {
		_, err := os.Lstat(h.Path("run/systemd/transient", unit))
		return !config.Discoverable(unit) || !errors.Is(err, fs.ErrNotExist)
	})
}
