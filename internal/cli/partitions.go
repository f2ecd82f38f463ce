package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/account"
	"dcm/internal/host"
	"dcm/internal/service"
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
	holders := held(ctx, h, con)
	if asJSON {
		all := make([]heldPart, len(a.Parts))
		for i, p := range a.Parts {
			all[i] = heldPart{p, append([]string{}, holders[p.Name]...)}
		}
		if err := con.answer(all); err != nil {
			return err
		}
		return unseen(a, "gpus")
	}
	t := newTable(con.out, "PARTITION", "MODE", "RENDER NODE", "CARD", "ID", "NUMA", "DOMAIN", "MEMORY", "UNITS", "HOLDER")
	for _, p := range a.Parts {
		t.row(p.Name, p.Mode, bare(p.RenderNode), orDash(bare(p.Card)), orDash(p.DriverID), fmt.Sprint(p.NUMA), fmt.Sprint(p.Domain),
			amount(p.Memory), count(p.ComputeUnits), orDash(strings.Join(holders[p.Name], " ")))
	}
	t.flush()
	return unseen(a, "gpus")
}

// heldPart is a partition with who has it.
type heldPart struct {
	account.Part
	Holders []string `json:"holders"`
}

// held tells who has which partition, as far as that can be told.
func held(ctx context.Context, h *host.Host, con *Console) map[string][]string {
	out := make(map[string][]string)
	if !h.Here() {
		return out
	}
	book, err := service.Held(ctx, h)
	if err != nil {
		fmt.Fprintf(con.err, "%swho has which partition cannot be told: %v\n", con.yellow("dcm: warning: "), err)
	}
	for _, p := range book {
		out[p.Name] = p.Whose()
	}
	return out
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
