package host

import (
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
)

// Select selects the profile for good, in dcm.toml.
func (h *Host) Select(name string) error {
	return selection.Select(config.DefaultPaths(h.Root), name)
}

// UntilReboot reports whether the selection ends at the next boot.
func (h *Host) UntilReboot(cfg *config.Config) bool {
	return strings.HasPrefix(cfg.Source, config.DefaultPaths(h.Root).Runtime+"/")
}
