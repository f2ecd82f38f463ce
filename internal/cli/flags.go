package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/exit"
	"dcm/internal/host"
)

// args wraps a check of positional arguments so that a wrong number is a usage
// error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := check(c, given); err != nil {
			return exit.With(exit.Usage, fmt.Errorf("%w; see '%s --help'", err, c.CommandPath()))
		}
		return nil
	}
}

// jsonFlag adds --json to a command that answers.
func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "answer in JSON")
}

// profileNames completes the names of profiles.
func profileNames(h *host.Host) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		cfg, err := h.Config()
		if err != nil || len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return cfg.Names(), cobra.ShellCompDirectiveNoFileComp
	}
}
