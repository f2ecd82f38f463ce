package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/bundle"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/fluxcmd"
	"dcm/internal/app/cli/leases"
	"dcm/internal/app/cli/query"
	"dcm/internal/app/cli/selftestcmd"
	"dcm/internal/app/cli/slurmcmd"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// oldNames are the names that commands of groups had before, with their new ones. They go on working, and no help has
// them. See STABILITY in dcm(1).
func oldNames() map[string]string {
	return map[string]string{
		"leases": "lease list", "release": "lease release", "queue": "lease queue", "hold": "lease hold",
		"slurm-conf": "slurm conf", "slurm-feature": "slurm feature", "slurm-tell": "slurm tell",
		"selftest": "support selftest", "record": "support record",
	}
}

// old returns the commands with their old names.
func old(h *host.Host, con *console.Console) []*cobra.Command {
	all := []*cobra.Command{
		leases.LeasesCmd(h, con), leases.ReleaseCmd(h, con), leases.QueueCmd(h, con), leases.HoldCmd(h, con),
		slurmcmd.SlurmConfCmd(h, con), slurmcmd.SlurmFeatureCmd(h, con), slurmcmd.SlurmTellCmd(h, con),
		selftestcmd.SelftestCmd(h, con), query.RecordCmd(h, con),
	}
	for _, c := range all {
		c.Hidden = true
	}
	return all
}

func leaseGroup(h *host.Host, con *console.Console) *cobra.Command {
	list := renamed(leases.LeasesCmd(h, con), "list [--long | --json]")
	for _, moved := range []string{"extend", "time"} { // "lease extend" has them
		cobra.CheckErr(list.Flags().MarkHidden(moved))
	}
	list.Short, list.Long = "List the leases with their owners, partitions and time limits", firstParagraph(list.Long)
	return group("lease", "List, extend, end and hold leases, and list the requests for them", list, leases.ExtendCmd(h, con),
		renamed(leases.ReleaseCmd(h, con), "release LEASE... | --all | --user USER"), renamed(leases.QueueCmd(h, con), "queue [--json | --remove ID]"), leases.HoldCmd(h, con))
}

func slurmGroup(h *host.Host, con *console.Console) *cobra.Command {
	return group("slurm", "Print and report what Slurm has to know about this node",
		renamed(slurmcmd.SlurmConfCmd(h, con), "conf --features | --gres | --slinky"), renamed(slurmcmd.SlurmFeatureCmd(h, con), "feature [FEATURE]"),
		renamed(slurmcmd.SlurmTellCmd(h, con), "tell [--failed REASON]"))
}

func fluxGroup(h *host.Host, con *console.Console) *cobra.Command {
	return group("flux", "Change the GPUs for jobs of Flux",
		fluxcmd.FluxPrologCmd(h, con), fluxcmd.FluxEpilogCmd(h, con), fluxcmd.FluxDevicesCmd(h, con))
}

func supportGroup(h *host.Host, con *console.Console, run bundle.Runner) *cobra.Command {
	return group("support", "Pack an archive for support, test how dcm reads the GPUs, record them",
		query.BundleCmd(h, con, run), renamed(selftestcmd.SelftestCmd(h, con), "selftest [--read | --change] [--archive FILE] [--power-was-off]"),
		renamed(query.RecordCmd(h, con), "record FILE [--trace]"))
}

// group returns a command that only has commands below it.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		c.DisableFlagsInUseLine = true
		names = append(names, c.Name())
	}
	g := &cobra.Command{
		SuggestionsMinimumDistance: 2,
		Use:                        name + " " + strings.Join(names, "|"), Short: short,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) == 0 {
				return exitcode.With(exitcode.Usage, fmt.Errorf("%s: no command given (want %s)\nhint: see '%s --help'", c.CommandPath(), strings.Join(names, ", "), c.CommandPath()))
			}
			return unknown(c, given[0])
		},
	}
	g.AddCommand(commands...)
	return g
}

// renamed returns the command with another usage line.
func renamed(c *cobra.Command, use string) *cobra.Command {
	before := c.Name()
	c.Use = use
	if replaced, ok := oldNames()[before]; ok {
		c.Example = strings.ReplaceAll(c.Example, "dcm "+before, "dcm "+replaced)
	}
	return c
}

func firstParagraph(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	return text
}
