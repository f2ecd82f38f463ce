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
		Use:   "partitions [--json | --metrics]",
		Short: "List the partitions, their device nodes, use and holders",
		Args:  console.Args(cobra.NoArgs),
	}
	asJSON := console.JsonFlag(cmd)
	asMetrics := cmd.Flags().Bool("metrics", false, "print the usage as metrics for Prometheus")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case *asJSON && *asMetrics:
			return exitcode.With(exitcode.Usage, errors.New("--json and --metrics cannot be combined"))
		case *asMetrics:
			return exportUsage(c.Context(), h, con)
		}
		return listPartitions(c.Context(), h, con, *asJSON)
	}
	return cmd
}

// noGPU is the output of commands that have nothing to show.
const noGPU = "No partitionable GPU found; see 'dcm gpus'."

func listPartitions(ctx context.Context, h *host.Host, con *console.Console, asJSON bool) error {
	a := client.Account(ctx, h)
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
		row := []string{p.Name, p.Mode, bare(p.RenderNode), console.OrDash(bare(p.Card)), console.OrDash(p.DriverID), text.NUMANode(p.NUMA), fmt.Sprint(p.Domain),
			amount(p.Memory), p.used(), p.busy(), count(p.ComputeUnits), console.OrDash(strings.Join(p.Holders, " ")), console.OrDash(p.pids())}
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

// leftover explains why a partition is held by a lease that dcm leases does not list.
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

// usedPart is a partition with its holders and use.
type usedPart struct {
	status.Part
	Holders   []string                    `json:"holders"`
	Used      *uint64                     `json:"memory_used_bytes"`
	Busy      *float64                    `json:"busy_percent"`
	Unknown   map[string]string           `json:"unknown,omitempty"`
	Processes status.List[status.Process] `json:"processes"`

	HeldMemory uint64 `json:"gpu_held_memory_bytes"` // of its GPU
}

func usedParts(a status.Account, u status.Usage) []usedPart {
	uses := make(map[string]status.PartUse, len(u.Parts))
	for _, p := range u.Parts {
		uses[p.Name] = p
	}
	held := make(map[string]uint64)
	for _, g := range a.GPUs {
		held[g.Address] = g.HeldMemory
	}
	all := make([]usedPart, len(a.Parts))
	for i, p := range a.Parts {
		use := uses[p.Name]
		holders := p.Holders // as everything that renders the account has them
		if len(holders) == 0 {
			holders = use.Holders
		}
		all[i] = usedPart{p, append([]string{}, holders...), use.Used, use.Busy, use.Unknown, use.Processes, held[p.GPU]}
	}
	return all
}

func (p usedPart) used() string {
	if p.Used == nil {
		return "-"
	}
	return text.GiB(*p.Used)
}

func (p usedPart) busy() string {
	if p.Busy == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", *p.Busy)
}

func (p usedPart) pids() string {
	var all []string
	for _, one := range p.Processes {
		all = append(all, fmt.Sprint(one.PID))
	}
	return strings.Join(all, " ")
}

func bare(node string) string { return strings.TrimPrefix(node, "/dev/dri/") }

// amount is a number of bytes in GiB, with one decimal.
func amount(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return text.GiB(bytes)
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// withoutGPUs reports whether the host has no GPU that can be partitioned.
func withoutGPUs(a status.Account) bool {
	return a.Managed() == 0 && client.WhyHidden(a, "gpus") == nil
}
