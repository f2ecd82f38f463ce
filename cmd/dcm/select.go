package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/bus"
	"dcm/internal/config"
)

func applyCmd(h *host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [PROFILE]",
		Short: "Put a profile on the GPUs now and follow it",
		Long: `Have the daemon put the selected profile on the GPUs, restarting the client units
around the change, and follow it to its end. If the GPUs are as selected, no unit
is restarted.

With PROFILE that one is selected until reboot, in /run/dcm/dcm.toml.d; 'dcm use'
selects for good. 'dcm apply --clear' ends such a selection.`,
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: profileNames(h),
	}
	clearing := cmd.Flags().Bool("clear", false, "go back to the profile selected for good")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if *clearing && len(given) > 0 {
			return withCode(exitUsage, errors.New("--clear takes no profile"))
		}
		return applyNow(c.Context(), h, given, *clearing)
	}
	return cmd
}

func useCmd(h *host) *cobra.Command {
	return &cobra.Command{
		Use:   "use PROFILE",
		Short: "Select a profile for good and follow its application",
		Long: `Select the profile in a drop-in in /etc/dcm/dcm.toml.d, have the daemon put it on
the GPUs, and follow it to its end. A selection until reboot ('dcm apply PROFILE')
is ended.`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: profileNames(h),
		RunE:              func(c *cobra.Command, given []string) error { return use(c.Context(), h, given[0]) },
	}
}

func applyNow(ctx context.Context, h *host, given []string, clearing bool) error {
	if h.remote() && len(given) == 0 && !clearing {
		return followRemote(ctx, h, "applying a profile", func(c *bus.Client) (string, error) { return c.Apply(ctx) })
	}
	if err := h.needRoot("applying a profile until reboot"); err != nil {
		return err
	}
	if len(given) > 0 {
		if err := h.fits(ctx, given); err != nil {
			return err
		}
	}
	return follow(ctx, h, func() error {
		switch runtime := config.DefaultPaths(h.root).Runtime; {
		case clearing:
			return config.RemoveSelection(runtime)
		case len(given) > 0:
			return config.WriteSelection(runtime, given[0])
		}
		return nil
	})
}

func use(ctx context.Context, h *host, name string) error {
	if h.remote() {
		return followRemote(ctx, h, "selecting a profile", func(c *bus.Client) (string, error) { return c.Use(ctx, name) })
	}
	if err := h.needRoot("selecting a profile"); err != nil {
		return err
	}
	if err := h.fits(ctx, []string{name}); err != nil {
		return err
	}
	return follow(ctx, h, func() error { return h.selectForGood(name) })
}

// selectForGood selects the profile in /etc, and ends a selection until reboot.
func (h *host) selectForGood(name string) error {
	paths := config.DefaultPaths(h.root)
	if err := config.WriteSelection(paths.Local, name); err != nil {
		return err
	}
	if err := config.RemoveSelection(paths.Runtime); err != nil {
		return err
	}
	return h.chosen(name)
}

// fits refuses a profile that does not exist or that these GPUs cannot have,
// before anything is written.
func (h *host) fits(ctx context.Context, given []string) error {
	_, _, _, err := h.compare(ctx, given)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return nil
}

// chosen makes sure that no stronger layer hides what was written.
func (h *host) chosen(name string) error {
	cfg, err := h.config()
	if err != nil {
		return err
	}
	if cfg.Selected != name {
		return fmt.Errorf("profile %s is selected in the files, but %s selects %q and has precedence", name, cfg.Source, cfg.Selected)
	}
	return nil
}

// runtimeSelection reports whether the selection ends at the next boot.
func (h *host) runtimeSelection(cfg *config.Config) bool {
	return strings.HasPrefix(cfg.Source, config.DefaultPaths(h.root).Runtime+"/")
}
