package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/host"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
)

func holdersCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "holders [--units] [--json]",
		Short: "List the processes that have a GPU open",
		Long: `List the processes that have /dev/kfd, /dev/nvidia* or a GPU's DRM node open: as
long as one does, the GPUs cannot be partitioned. Without root only your own processes can be
looked at, and the exit status is then 1. With --units, the units they belong to,
and whether each is a client.`,
		Args: args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	units := cmd.Flags().Bool("units", false, "list units, and whether they are clients")
	cmd.RunE = func(c *cobra.Command, _ []string) error { return holders(c.Context(), h, con, *units, *asJSON) }
	return cmd
}

func holders(ctx context.Context, h *host.Host, con *Console, units, asJSON bool) error {
	u, err := h.Node(nil).Usage(ctx)
	if err != nil {
		return err
	}
	if len(u.Uninspected) > 0 {
		err = &gpu.PartialError{Uninspected: u.Uninspected}
	} else if n := u.Unexplained(); n > 0 && len(u.Holders) == 0 {
		fmt.Fprintf(con.err, "%sof the driver's use count of %d, %d is no process's that can be seen\n", con.yellow("dcm: warning: "), u.Count, n)
	}
	list := append([]runstate.Holder{}, apply.Holders(u.Holders)...)
	if units && (asJSON || len(list) > 0) {
		return errors.Join(holderUnits(h, con, list, asJSON), err)
	}
	if asJSON {
		if e := con.answer(list); e != nil {
			return e
		}
		return err
	}
	if len(list) == 0 {
		if err == nil {
			fmt.Fprintln(con.out, "No process has a GPU open.")
		}
		return err
	}
	t := newTable(con.out, "PID", "COMMAND", "UNIT", "DEVICES")
	for _, p := range list {
		t.row(fmt.Sprint(p.PID), p.Command, orDash(p.Unit), strings.Join(p.Devices, " "))
	}
	t.flush()
	return err
}
