package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/app/host"
	"dcm/internal/exitcode"
)

func root(h *host.Host, con *Console, run runner) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dcm",
		Short: "Keep a server's GPUs in the selected partition profile",
		Long: `dcm keeps the GPUs of this host in the partition profile selected in
/etc/dcm/dcm.toml: at boot before any GPU client starts, and on every change.`,
		Version:       h.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) == 0 {
				return c.Help()
			}
			return unknown(c, given[0])
		},
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exitcode.With(exitcode.Usage, fmt.Errorf("%w; see '%s --help'", err, c.CommandPath()))
	})
	cmd.PersistentFlags().StringVar(&h.Root, "root", h.Root, "look at the host tree below `DIR`")
	cobra.CheckErr(cmd.PersistentFlags().MarkHidden("root"))
	cmd.AddGroup(&cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "change", Title: "Change:"},
		&cobra.Group{ID: "config", Title: "Configuration:"}, &cobra.Group{ID: "unit", Title: "As the units do:"}, &cobra.Group{ID: "slurm", Title: "Slurm:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			c.DisableFlagsInUseLine = true
			cmd.AddCommand(c)
		}
	}
	add("look", statusCmd(h, con), gpusCmd(h, con), partitionsCmd(h, con), topCmd(h, con), topologyCmd(h, con), planCmd(h, con), verifyCmd(h, con), holdersCmd(h, con), reportCmd(h, con, run), selftestCmd(h, con))
	add("change", applyCmd(h, con), useCmd(h, con), runCmd(h, con), releaseCmd(h), queueCmd(h, con), guardCmd(h, con))
	add("config", profilesCmd(h, con), checkCmd(h, con), exportCmd(h, con), importCmd(h, con))
	add("unit", daemonCmd(h, con), oneshotCmd(h, con), reserveCmd(h, con), agentCmd(h, con))
	add("slurm", slurmConfCmd(h, con), slurmFeatureCmd(h, con), slurmTellCmd(h, con))
	cmd.AddCommand(versionCmd(h, con))
	return cmd
}

// unknown is the error of a command that there is not.
func unknown(c *cobra.Command, name string) error {
	hint := "see 'dcm --help'"
	if like := c.SuggestionsFor(name); len(like) > 0 {
		hint = fmt.Sprintf("did you mean %q?", like[0])
	}
	return exitcode.With(exitcode.Usage, fmt.Errorf("there is no command %q; %s", name, hint))
}
