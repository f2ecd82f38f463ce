package query

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/apply"
	"dcm/internal/engine/host"
	"dcm/internal/gpu"
)

func HoldersCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "holders [GPU] [--units] [--json]",
		Short: "List the processes that have a GPU open",
		Long: `List the processes that have /dev/kfd, /dev/nvidia* or a GPU's DRM node open. Until
they close it, the GPUs that they use cannot be partitioned. Without root, only your own processes
are scanned, and the exit status is 1. With --units, list their units, and whether each
is a client. GPU is the number or the address of one GPU.`,
		Args: console.Args(cobra.MaximumNArgs(1)),
	}
	asJSON := con.JsonFlag(cmd)
	units := cmd.Flags().Bool("units", false, "list units, and whether they are clients")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		return holders(c.Context(), h, con, given, *units, *asJSON)
	}
	return cmd
}

func holders(ctx context.Context, h *host.Host, con *console.Console, given []string, units, asJSON bool) error {
	a := client.Account(ctx, h)
	address, err := oneGPU(a, given)
	if err != nil {
		return err
	}
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
	list := placed(h, a, apply.Holders(u.Holders))
	if address != "" {
		list = slices.DeleteFunc(list, func(p PlacedHolder) bool { return !slices.Contains(p.GPUs, address) })
	}
	if units && (asJSON || len(list) > 0) {
		return errors.Join(holderUnits(h, con, plain(list), asJSON), err)
	}
	switch {
	case asJSON:
		return errors.Join(con.Answer(list), err)
	case len(list) == 0 && err == nil && address != "":
		con.Printf("No process has GPU %s open.\n", address)
	case len(list) == 0 && err == nil:
		con.Println("No process has a GPU open.")
	case len(list) > 0:
		holderTable(con, a, list).Flush()
	}
	return err
}
