package host

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
)

// Clients returns the configured clients, the services with reservations and, if so configured,
// the services that the daemon discovered in this boot. If their file cannot be read there are
// none: the daemon discovers them again.
func Clients(h *Host, cfg *config.Config) []string {
	all := slices.Clone(cfg.Clients)
	for _, c := range cfg.DeclaredClients {
		if !config.Lists(all, c.Unit) {
			all = append(all, c.Unit)
		}
	}
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

// DiscoverableUnits returns the units that may become clients. A transient service may not: it is
// a job of a user (systemd-run), and a restart would begin it again.
func DiscoverableUnits(h *Host, units []string) []string {
	return slices.DeleteFunc(slices.Clone(units), func(unit string) bool {
		_, err := os.Lstat(h.Path("run/systemd/transient", unit))
		return !config.Discoverable(unit) || !errors.Is(err, fs.ErrNotExist)
	})
}
