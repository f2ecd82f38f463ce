package cli

import (
	"context"

	"github.com/spf13/cobra"

	"dcm/internal/bus"
	"dcm/internal/host"
)

func useCmd(h *host.Host, con *Console) *cobra.Command {
	return &cobra.Command{
		Use:   "use PROFILE",
		Short: "Select a profile for good and follow its application",
		Long: `Select the profile in a drop-in in /etc/dcm/dcm.toml.d, have the daemon put it on
the GPUs, and follow it to its end. A selection until reboot ('dcm apply PROFILE')
is ended.`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: profileNames(h),
		RunE:              func(c *cobra.Command, given []string) error { return use(c.Context(), h, con, given[0]) },
	}
}

func use(ctx context.Context, h *host.Host, con *Console, name string) error {
	if remote(h) {
		return followRemote(ctx, h, con, "selecting a profile", func(c *bus.Client) (string, error) { return c.Use(ctx, name) })
	}
	if err := h.NeedRoot("selecting a profile"); err != nil {
		return err
	}
	if err := fits(ctx, h, []string{name}); err != nil {
		return err
	}
	return follow(ctx, h, con, func() error { return h.Select(name) })
}
