package slurmcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/slurm"
	"dcm/internal/linux/filelock"
)

func SlurmTellCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm-tell [--failed REASON]",
		Short: "Tell slurmctld what the GPUs of this node have",
		Long: `Compare slurmctld's record of this node with the features that the GPUs have, and where
it has others tell it, and have slurmd look anew. A node whose GPUs are as none of the
features says is drained. While slurmd itself has a feature changed, nothing is done.

It is for a client unit, see dcm-slurm(7), so that it runs after every change.`,
		Args: console.Args(cobra.NoArgs),
	}
	failed := cmd.Flags().String("failed", "", "drain the node for this `REASON`, once slurmd has given its own")
	cmd.RunE = func(c *cobra.Command, _ []string) error { return slurmTell(c.Context(), h, con, *failed) }
	return cmd
}

func slurmTell(ctx context.Context, h *host.Host, con *console.Console, failed string) error {
	if err := h.NeedRoot("telling slurmctld"); err != nil {
		return err
	}
	busy, err := filelock.Held(switching(h))
	if err != nil {
		return err
	}
	if busy && failed == "" {
		fmt.Fprintln(con.Out, "slurmd has a feature changed, and will tell slurmctld itself.")
		return nil
	}
	all, active, err := featured(ctx, h)
	if err != nil {
		return err
	}
	c := slurm.Controller{NodeName: nodeName(ctx, h), Run: slurm.Scontrol}
	return c.Report(ctx, slurm.Report{
		Features: all, Active: active, Failed: failed,
		Reload: func(ctx context.Context) error { return reloadSlurmd(ctx, h) },
		Log:    func(what string) { fmt.Fprintln(con.Out, what) },
	})
}

// reloadSlurmd has slurmd ask its helpers anew. Jobs go on.
func reloadSlurmd(ctx context.Context, h *host.Host) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.Reload(ctx, "slurmd.service")
}
