package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"dcm/internal/bus"
	"dcm/internal/config"
	"dcm/internal/exit"
	"dcm/internal/host"
)

func applyCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [PROFILE]",
		Short: "Put a profile on the GPUs now and follow it",
		Long: `Have the daemon put the selected profile on the GPUs, restarting the client units
around the change, and follow it to its end. If the GPUs are as selected, no unit
is restarted.

With PROFILE that one is selected until reboot, or until another one is selected for
good, with 'dcm use' or by an edit. 'dcm apply --clear' ends such a selection.`,
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: profileNames(h),
	}
	clearing := cmd.Flags().Bool("clear", false, "go back to the profile selected for good")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if *clearing && len(given) > 0 {
			return exit.With(exit.Usage, errors.New("--clear takes no profile"))
		}
		return applyNow(c.Context(), h, con, given, *clearing)
	}
	return cmd
}

func applyNow(ctx context.Context, h *host.Host, con *Console, given []string, clearing bool) error {
	if remote(h) && len(given) == 0 && !clearing {
		return followRemote(ctx, h, con, "applying a profile", func(c *bus.Client) (string, error) { return c.Apply(ctx) })
	}
	if err := h.NeedRoot("applying a profile until reboot"); err != nil {
		return err
	}
	if len(given) > 0 && given[0] != config.None {
		if err := fits(ctx, h, given); err != nil {
			return err
		}
	}
	return follow(ctx, h, con, func() error {
		switch paths := config.DefaultPaths(h.Root); {
		case clearing:
			return config.EndPassing(paths)
		case len(given) > 0:
			return config.SelectPassing(paths, given[0])
		}
		return nil
	})
}
