package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/bundle"
	"dcm/internal/app/cli/change"
	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/configure"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/leases"
	"dcm/internal/app/cli/query"
	"dcm/internal/app/cli/slurmcmd"
	"dcm/internal/app/cli/unit"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

func root(h *host.Host, con *console.Console, run bundle.Runner) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dcm",
		Short: "Keep a server's GPUs in the selected partition profile",
		Long: `dcm partitions the GPUs of this host according to the profile that is selected in
/etc/dcm/dcm.toml. It applies the profile at boot, before the services that use a GPU
start, and whenever the configuration changes. Without a command, dcm prints the status.`,
		Version:       h.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		// Two wrong letters, such as an exchange of two.
		SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) == 0 {
				return query.Overview(c.Context(), h, con)
			}
			return unknown(c, given[0])
		},
	}
	// The root command has nothing to run without a subcommand.
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exitcode.With(exitcode.Usage, fmt.Errorf("%w\nhint: see '%s --help'", err, c.CommandPath()))
	})
	cmd.PersistentFlags().StringVar(&h.Root, "root", h.Root, "use the host tree below `DIR`")
	cobra.CheckErr(cmd.PersistentFlags().MarkHidden("root"))
	cmd.AddGroup(&cobra.Group{ID: "query", Title: "Query:"}, &cobra.Group{ID: "change", Title: "Change:"},
		&cobra.Group{ID: "config", Title: "Configuration:"}, &cobra.Group{ID: "other", Title: "Other:"})
	cmd.SetHelpCommandGroupID("other")
	cmd.SetCompletionCommandGroupID("other")
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			c.DisableFlagsInUseLine = true
			cmd.AddCommand(c)
		}
	}
	add("query", query.StatusCmd(h, con), query.GpusCmd(h, con), query.PartitionsCmd(h, con), leases.UsageCmd(h, con), query.TopCmd(h, con), query.TopologyCmd(h, con), query.PlanCmd(h, con), query.VerifyCmd(h, con), query.HoldersCmd(h, con), query.ReportCmd(h, con, run), query.HistoryCmd(h, con))
	add("change", change.ApplyCmd(h, con, slurmcmd.Scheduler{Host: h}), change.UseCmd(h, con, slurmcmd.Scheduler{Host: h}), change.ConfirmCmd(h, con), change.UndoCmd(h, con, slurmcmd.Scheduler{Host: h}, query.ShowPlan(h, con)), leases.RunCmd(h, con), leaseGroup(h, con), leases.GuardCmd(h, con))
	add("config", configure.ProfilesCmd(h, con), configure.CheckCmd(h, con), configure.ExportCmd(h, con), configure.ImportCmd(h, con))
	add("other", supportGroup(h, con, run), slurmGroup(h, con), fluxGroup(h, con), versionCmd(h, con))
	add("", unit.DaemonCmd(h, con), unit.OneshotCmd(h, con), unit.ReserveCmd(h, con), unit.AgentCmd(h, con))
	add("", old(h, con)...)
	for _, name := range []string{"gpus", "partitions", "top", "topology", "plan", "verify", "holders", "record", "selftest", "profiles", "check", "export", "slurm-conf",
		"support record", "support selftest", "slurm conf"} {
		c, _, err := cmd.Find(strings.Fields(name))
		cobra.CheckErr(err)
		awaitReload(h, con, c)
	}
	completeOptions(cmd, h)
	con.WrapHelp(cmd)
	return cmd
}

// awaitReload makes a command that reads the GPUs wait while a change reloads their driver. With --node it reads none.
func awaitReload(h *host.Host, con *console.Console, c *cobra.Command) {
	run := c.RunE
	c.RunE = func(c *cobra.Command, given []string) error {
		if node := c.Flags().Lookup("node"); node == nil || node.Value.String() == "" {
			if err := client.AwaitReload(c.Context(), h, con.Note); err != nil {
				return err
			}
		}
		return run(c, given)
	}
}
