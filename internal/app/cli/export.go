package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"dcm/internal/app/host"
	"dcm/internal/engine/config"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func exportCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the modes that the GPUs have as a profile, in TOML",
		Args:  args(cobra.NoArgs),
	}
	name := cmd.Flags().String("name", "exported", "the profile's `NAME`")
	cmd.RunE = func(c *cobra.Command, _ []string) error { return export(c.Context(), h, con, *name) }
	return cmd
}

func export(ctx context.Context, h *host.Host, con *Console, name string) error {
	devices, err := host.Look(ctx, h.Node(nil), fromDaemon(h))
	if err != nil {
		return err
	}
	p, err := partition.Describe(name, gpu.Partitionable(devices))
	if err != nil {
		return err
	}
	_, err = io.WriteString(con.out, config.FormatProfile(p))
	return err
}
