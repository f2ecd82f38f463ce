package host

import (
	"strings"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
)

// Select selects the profile permanently, in dcm.toml.
func Select(h *Host, name string) error {
	return selection.Select(config.DefaultPaths(h.Root), name)
}

// UntilReboot reports whether the selection ends at the next boot.
func UntilReboot(h *Host, cfg *config.Config) bool {
	return strings.HasPrefix(cfg.Source, config.DefaultPaths(h.Root).Runtime+"/")
}
