package host

import (
	"fmt"
	"strings"

	"dcm/internal/config"
)

// Select selects the profile in /etc, and ends a selection until reboot.
func (h *Host) Select(name string) error {
	paths := config.DefaultPaths(h.Root)
	if err := config.WriteSelection(paths.Local, name); err != nil {
		return err
	}
	if err := config.RemoveSelection(paths.Runtime); err != nil {
		return err
	}
	return h.chosen(name)
}

// chosen makes sure that no stronger layer hides what was written.
func (h *Host) chosen(name string) error {
	cfg, err := h.Config()
	if err != nil {
		return err
	}
	if cfg.Selected != name {
		return fmt.Errorf("profile %s is selected in the files, but %s selects %q and has precedence", name, cfg.Source, cfg.Selected)
	}
	return nil
}

// UntilReboot reports whether the selection ends at the next boot.
func (h *Host) UntilReboot(cfg *config.Config) bool {
	return strings.HasPrefix(cfg.Source, config.DefaultPaths(h.Root).Runtime+"/")
}
