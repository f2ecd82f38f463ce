package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/host"
)

func partitionsCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "partitions [--json]",
		Short: "List the GPUs' partitions, their device nodes and what each has",
		Args:  args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error { return listPartitions(c.Context(), h, con, *asJSON) }
	return cmd
}

func listPartitions(ctx context.Context, h *host.Host, con *Console, asJSON bool) error {
	a := take(ctx, h)
	if asJSON {
		if err := con.answer(a.Parts); err != nil {
			return err
		}
		return unseen(a, "gpus")
	}
	t := newTable(con.out, "PARTITION", "MODE", "RENDER NODE", "CARD", "ID", "NUMA", "DOMAIN", "MEMORY", "UNITS")
	for _, p := range a.Parts {
		t.row(p.Name, p.Mode, bare(p.RenderNode), orDash(bare(p.Card)), orDash(p.DriverID), fmt.Sprint(p.NUMA), fmt.Sprint(p.Domain),
			amount(p.Memory), count(p.ComputeUnits))
	}
	t.flush()
	return unseen(a, "gpus")
}

func bare(node string) string { return strings.TrimPrefix(node, "/dev/dri/") }

// amount is a number of bytes, to a tenth of a GiB.
func amount(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<30)), ".0") + " GiB"
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
