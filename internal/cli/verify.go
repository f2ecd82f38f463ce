package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/partition"
)

// deviation is one GPU that is not as the profile says.
type deviation struct {
	Address partition.Address `json:"address"`
	Mode    partition.Mode    `json:"mode"`
	Want    partition.Mode    `json:"want"`
}

func verifyCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [PROFILE] [--json]",
		Short: "Tell whether the GPUs are as a profile says",
		Long: `Compare the GPUs with the profile, or with the selected one. The exit status is 0
if they are so, 2 if they are not, 1 if it cannot be told.`,
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: profileNames(h),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error { return verify(c.Context(), h, con, given, *asJSON) }
	return cmd
}

func verify(ctx context.Context, h *host.Host, con *Console, given []string, asJSON bool) error {
	_, d, name, err := h.Compare(ctx, given...)
	if err != nil {
		return err
	}
	found := []deviation{}
	for _, g := range d.GPUs {
		if want := d.Want.Modes[g.Address]; want != g.Mode() {
			found = append(found, deviation{g.Address, g.Mode(), want})
		}
	}
	if asJSON {
		if err := con.answer(map[string]any{"profile": name, "matches": len(found) == 0, "differences": found}); err != nil {
			return err
		}
	} else if len(found) == 0 {
		fmt.Fprintf(con.out, "All %d GPUs are as profile %s says.\n", len(d.GPUs), name)
	}
	if len(found) == 0 {
		return nil
	}
	if !asJSON {
		for _, f := range found {
			fmt.Fprintf(con.out, "%s is %s, profile %s says %s\n", f.Address, f.Mode, name, f.Want)
		}
	}
	return exit.With(exit.Differs, nil)
}
