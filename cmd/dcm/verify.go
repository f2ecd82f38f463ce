package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/partition"
)

// deviation is one GPU that is not as the profile says.
type deviation struct {
	Address partition.Address `json:"address"`
	Mode    partition.Mode    `json:"mode"`
	Want    partition.Mode    `json:"want"`
}

func verifyCmd(h *host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [PROFILE] [--json]",
		Short: "Tell whether the GPUs are as a profile says",
		Long: `Compare the GPUs with the profile, or with the selected one. The exit status is 0
if they are so, 2 if they are not, 1 if it cannot be told.`,
		Args:              args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: profileNames(h),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, given []string) error { return verify(c.Context(), h, given, *asJSON) }
	return cmd
}

func verify(ctx context.Context, h *host, given []string, asJSON bool) error {
	_, d, name, err := h.compare(ctx, given)
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
		if err := h.answer(map[string]any{"profile": name, "matches": len(found) == 0, "differences": found}); err != nil {
			return err
		}
	} else if len(found) == 0 {
		fmt.Fprintf(h.out, "All %d GPUs are as profile %s says.\n", len(d.GPUs), name)
	}
	if len(found) == 0 {
		return nil
	}
	if !asJSON {
		for _, f := range found {
			fmt.Fprintf(h.out, "%s is %s, profile %s says %s\n", f.Address, f.Mode, name, f.Want)
		}
	}
	return differs()
}
