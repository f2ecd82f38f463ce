package configure

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func ExportCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [--name NAME]",
		Short: "Print the current modes of the GPUs as a profile, in TOML",
		Args:  console.Args(cobra.NoArgs),
	}
	name := cmd.Flags().String("name", "exported", "`NAME` of the profile")
	cmd.RunE = func(c *cobra.Command, _ []string) error { return export(c.Context(), h, con, *name) }
	return cmd
}

func export(ctx context.Context, h *host.Host, con *console.Console, name string) error {
	devices, err := gather.Devices(ctx, host.OpenNode(h, nil), client.FromDaemon(h))
	if err != nil {
		return err
	}
	p, err := partition.Describe(name, gpu.Partitionable(devices))
	if err != nil {
		return err
	}
	_, err = io.WriteString(con.Out, config.FormatProfile(p))
	return err
}
