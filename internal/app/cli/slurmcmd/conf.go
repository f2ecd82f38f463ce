package slurmcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/slurm"
	"dcm/internal/frontends/status"
)

// pool is the name of Slurm's reservation, which is for no unit.
const pool = "slurm"

func SlurmConfCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm-conf --features | --gres",
		Short: "Print Slurm's configuration for this node",
		Long: `With --features, jobs select the profile of the whole node. With --gres, they get single
partitions of its current profile. Slurm reads the number of GRES only once, so use one
or the other. See dcm-slurm(7).`,
		Args: console.Args(cobra.NoArgs),
	}
	features := cmd.Flags().Bool("features", false, "print helpers.conf and the features of the node")
	gres := cmd.Flags().Bool("gres", false, "print gres.conf and the GRES of the node")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		switch ctx := c.Context(); {
		case *features == *gres:
			return exitcode.With(exitcode.Usage, errors.New("give either --features or --gres: Slurm's number of GRES does not change with a feature"))
		case *features:
			return slurmFeatures(ctx, h, con)
		default:
			return slurmGres(ctx, h, con)
		}
	}
	return cmd
}

func slurmFeatures(ctx context.Context, h *host.Host, con *console.Console) error {
	all, _, err := featured(ctx, h)
	if err == nil && len(all) == 0 {
		err = errors.New("no profile fits the GPUs of this host")
	}
	if err != nil {
		return err
	}
	fmt.Fprint(con.Out, slurm.FeatureLines(nodeName(ctx, h), slices.Sorted(maps.Keys(all))))
	return nil
}

func slurmGres(ctx context.Context, h *host.Host, con *console.Console) error {
	a := client.Account(ctx, h)
	if err := client.WhyHidden(a, "partitions"); err != nil && len(a.Parts) == 0 {
		return err
	}
	devices, note := pooled(a)
	if len(devices) == 0 {
		return errors.New("no partition has a render node of its own\nhint: for GPUs with MIG see AutoDetect=nvml in gres.conf(5)")
	}
	fmt.Fprint(con.Out, slurm.GresLines(nodeName(ctx, h), note, devices))
	return nil
}

// pooled returns the partitions for Slurm's jobs. With a reservation these are its links below
// /dev/dcm, otherwise the device nodes of all partitions.
func pooled(a status.Account) ([]slurm.Device, string) {
	for _, r := range a.Reserved {
		if r.Name != pool || r.Unit != "" {
			continue
		}
		var out []slurm.Device
		for i, name := range r.Partitions {
			if at := slices.IndexFunc(a.Parts, func(p status.Part) bool { return p.Name == name }); at >= 0 {
				out = append(out, slurm.Device{Type: kind(a.Parts[at]), File: fmt.Sprintf("/dev/dcm/%s/render%d", pool, i)})
			}
		}
		return out, fmt.Sprintf("The partitions of the reservation %q, of profile %s", pool, a.Profile.Applied)
	}
	var out []slurm.Device
	for _, p := range a.Parts {
		if p.RenderNode != "" && opensAlone(a, p.GPU) {
			out = append(out, slurm.Device{Type: kind(p), File: p.RenderNode})
		}
	}
	return out, "All partitions: grant none of them as leases, see dcm-slurm(7)"
}

// opensAlone reports whether opening the render node and the common nodes is enough to use a
// partition.
func opensAlone(a status.Account, address string) bool {
	return slices.ContainsFunc(a.GPUs, func(g status.GPU) bool { return g.Address == address && len(g.Offers.Compute) > 0 })
}

// kind returns a partition's mode as a type of GRES: cpx_nps4.
func kind(p status.Part) string { return strings.ToLower(slurm.Feature(p.Mode)) }
