package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu"
)

func HoldersCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "holders [--units] [--json]",
		Short: "List the processes that have a GPU open",
		Long: `List the processes that have /dev/kfd, /dev/nvidia* or a GPU's DRM node open. Until
they close it, the GPUs that they use cannot be partitioned. Without root, only your own processes
are scanned, and the exit status is 1. With --units, list their units, and whether each
is a client.`,
		Args: console.Args(cobra.NoArgs),
	}
	asJSON := console.JsonFlag(cmd)
	units := cmd.Flags().Bool("units", false, "list units, and whether they are clients")
	cmd.RunE = func(c *cobra.Command, _ []string) error { return holders(c.Context(), h, con, *units, *asJSON) }
	return cmd
}

func holders(ctx context.Context, h *host.Host, con *console.Console, units, asJSON bool) error {
	u, err := host.OpenNode(h, nil).Usage(ctx)
	if err != nil {
		return err
	}
	if len(u.Uninspected) > 0 {
		err = &gpu.PartialError{Uninspected: u.Uninspected}
	}
	for _, d := range u.Drivers {
		if n := d.Unexplained(); err == nil && n > 0 && len(u.ForVendor(d.Vendor).Holders) == 0 {
			con.Warn(fmt.Sprintf("the use count of the driver for %s GPUs is %d, and no visible process accounts for %d of it", d.Vendor, d.Count, n))
		}
	}
	list := append([]runstate.Holder{}, apply.Holders(u.Holders)...)
	if units && (asJSON || len(list) > 0) {
		return errors.Join(holderUnits(h, con, list, asJSON), err)
	}
	if asJSON {
		if e := con.Answer(list); e != nil {
			return e
		}
		return err
	}
	if len(list) == 0 {
		if err == nil {
			con.Println("No process has a GPU open.")
		}
		return err
	}
	t := con.NewTable("PID", "COMMAND", "UNIT", "DEVICES")
	for _, p := range list {
		t.Row(fmt.Sprint(p.PID), p.Command, console.OrDash(p.Unit), console.OrDash(strings.Join(p.Devices, " ")))
	}
	t.Flush()
	return err
}
