package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/metrics"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

func PartitionsCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "partitions [GPU] [--all | --json | --metrics]",
		Short: "List the partitions, their device nodes, use and holders",
		Long: `List the partitions, their device nodes, use and holders. Free partitions of a GPU that are
alike have one line, except with --all. GPU is the number or the address of one GPU.`,
		Args: console.Args(cobra.MaximumNArgs(1)),
	}
	asJSON := con.JsonFlag(cmd)
	asMetrics := cmd.Flags().Bool("metrics", false, "print the usage as metrics for Prometheus")
	all := cmd.Flags().Bool("all", false, "give each free partition a line of its own")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		switch {
		case *asJSON && *asMetrics:
			return exitcode.With(exitcode.Usage, errors.New("--json and --metrics cannot be combined"))
		case *asMetrics && len(given) > 0:
			return exitcode.With(exitcode.Usage, errors.New("--metrics is for all GPUs"))
		case *asMetrics:
			return exportUsage(c.Context(), h, con)
		}
		return listPartitions(c.Context(), h, con, given, *asJSON, *all)
	}
	return cmd
}

// noGPU is the output of commands that have nothing to show.
const noGPU = "No partitionable GPU found; see 'dcm gpus'."

func listPartitions(ctx context.Context, h *host.Host, con *console.Console, given []string, asJSON, each bool) error {
	a := client.Account(ctx, h)
	address, err := oneGPU(a, given)
	if err != nil {
		return err
	}
	if address != "" {
		a = only(a, address)
	}
	u, err := client.Usage(ctx, h)
	if err != nil {
		return err
	}
	if withoutGPUs(a) && !asJSON {
		con.Println(noGPU)
		return nil
	}
	if why := u.Why(status.PartHolders); why != "" && h.Here() {
		con.Warn("cannot determine the holders of partitions: " + why)
	}
	all := usedParts(a, u)
	if asJSON {
		if err := con.Answer(all); err != nil {
			return err
		}
		return client.WhyHidden(a, "gpus")
	}
	if !each {
		all = folded(all)
	}
	partitionTable(con, all).Flush()
	printMade(con, a)
	printLoose(con, a)
	return client.WhyHidden(a, "gpus")
}

// partitionTable returns the table of the partitions. A narrow terminal shows the modes longer than the device
// nodes if they differ.
func partitionTable(con *console.Console, all []usedPart) *console.Table {
	last := []string{"MODE", "BUSY", "RENDER NODE"}
	if slices.ContainsFunc(all, func(p usedPart) bool { return p.Mode != all[0].Mode }) {
		last = []string{"RENDER NODE", "BUSY", "MODE"}
	}
	columns := []string{"PARTITION", "MODE", "RENDER NODE", "CARD", "ID", "NUMA", "DOMAIN", "MEMORY", "USED", "BUSY", "UNITS", "HOLDER", "PIDS"}
	held := slices.ContainsFunc(all, func(p usedPart) bool { return p.HeldMemory > 0 })
	if held {
		columns = slices.Insert(columns, 9, "HELD BY NONE")
	}
	t := con.NewTable(columns...).
		Optional(slices.Concat([]string{"CARD", "ID", "UNITS", "DOMAIN", "PIDS", "NUMA"}, last)...)
	for _, p := range all {
		row := []string{p.Name, p.Mode, console.OrDash(bare(p.RenderNode)), console.OrDash(bare(p.Card)), console.OrDash(p.DriverID), text.NUMANode(p.NUMA), p.domains(),
			p.each(amount(p.Memory)), p.used(), p.busy(), count(p.ComputeUnits), console.OrDash(strings.Join(p.Holders, " ")), console.OrDash(p.pids())}
		if held {
			row = slices.Insert(row, 9, amount(p.HeldMemory))
		}
		t.Row(row...)
	}
	return t
}

// printMade prints the GPUs whose modes leases have set, and the instances that leases have left.
func printMade(con *console.Console, a status.Account) {
	for _, p := range status.Leftovers(a) {
		con.Println(leftover(p.Name, p.Holders))
	}
	for _, g := range a.GPUs {
		if g.Rest != "" {
			m := partition.MadeMode{Compute: partition.Compute(g.Mode.Compute), Rest: partition.Compute(g.Rest)}
			con.Println(m.Describe(partition.Address(g.Address)))
		}
	}
}

// leftover explains why a partition is held by a lease that dcm lease list does not list.
func leftover(name string, holders []string) string {
	return fmt.Sprintf("%s is not free yet: %s has ended, and dcm destroys its instance when the driver permits it", name, strings.Join(holders, ", "))
}

// exportUsage fails if there is nothing to export, so that the previous file of the caller
// stays.
func exportUsage(ctx context.Context, h *host.Host, con *console.Console) error {
	u, err := client.Usage(ctx, h)
	if why := u.Why(status.PartUses); err == nil && len(u.Parts) == 0 && why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return err
	}
	_, err = con.Out.Write(metrics.RenderUsage(u))
	return err
}

// withoutGPUs reports whether the host has no GPU that can be partitioned.
func withoutGPUs(a status.Account) bool {
	return a.Managed() == 0 && client.WhyHidden(a, "gpus") == nil
}
