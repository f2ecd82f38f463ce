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
		Short: "Report the features of this node to slurmctld",
		Long: `Compare slurmctld's record of this node with the features of the GPUs. If they differ,
update slurmctld and make slurmd read its features again. If the GPUs match no feature,
drain the node. While slurmd itself changes a feature, do nothing.

A client unit runs this command after every change, see dcm-slurm(7).`,
		Args: console.Args(cobra.NoArgs),
	}
	failed := cmd.Flags().String("failed", "", "drain the node with this `REASON`, after slurmd has set its own")
	cmd.RunE = func(c *cobra.Command, _ []string) error { return slurmTell(c.Context(), h, con, *failed) }
	return cmd
}

func slurmTell(ctx context.Context, h *host.Host, con *console.Console, failed string) error {
	if err := h.NeedRoot("updating slurmctld"); err != nil {
		return err
	}
	busy, err := filelock.Held(switching(h))
	if err != nil {
		return err
	}
	if busy && failed == "" {
		fmt.Fprintln(con.Out, "slurmd is changing a feature and updates slurmctld itself.")
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

// reloadSlurmd makes slurmd run its helpers again. Jobs continue.
func reloadSlurmd(ctx context.Context, h *host.Host) error {
	conn, err := h.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Jobs.Reload(ctx, "slurmd.service")
}
