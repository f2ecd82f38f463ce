package slurmcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/slurm"
)

// Forms of the types of GRES.
const (
	exactTypes = "exact"
	plainTypes = "plain"
)

// forms are the options of slurm-conf.
type forms struct {
	features, gres, slinky bool   // what to print; only one is set
	nvml                   bool   // slurmd finds NVIDIA's GPUs with NVML
	types                  string // form of the types: [exactTypes] or [plainTypes]
	write                  string // gres.conf to keep; "" to print
}

func SlurmConfCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm-conf --features | --gres | --slinky",
		Short: "Print Slurm's configuration for this node",
		Long: `With --features, jobs select the profile of the whole node. With --gres, they get single
partitions of its current profile. Slurm reads the number of GRES only once, so use one
or the other. With --slinky, print values for the Helm chart of Slinky. See dcm-slurm(7).`,
		Args: console.Args(cobra.NoArgs),
	}
	var f forms
	cmd.Flags().BoolVar(&f.features, "features", false, "print helpers.conf and the features of the node")
	cmd.Flags().BoolVar(&f.gres, "gres", false, "print gres.conf and the GRES of the node")
	cmd.Flags().BoolVar(&f.slinky, "slinky", false, "print gres.conf and the GRES as values for Slinky's chart")
	cmd.Flags().BoolVar(&f.nvml, "nvml", false, "with --gres, let slurmd find NVIDIA's GPUs with NVML")
	cmd.Flags().StringVar(&f.types, "types", exactTypes, "with --gres, the `FORM` of the types: exact, or plain, without dots")
	cmd.Flags().StringVar(&f.write, "write", "", "with --gres, write gres.conf to `FILE` and make slurmd read it")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("types", cobra.FixedCompletions([]cobra.Completion{exactTypes, plainTypes}, cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(c *cobra.Command, _ []string) error { return slurmConf(c.Context(), h, con, f) }
	return cmd
}

func slurmConf(ctx context.Context, h *host.Host, con *console.Console, f forms) error {
	switch {
	case f.features && f.gres, f.features && f.slinky, f.gres && f.slinky, !f.features && !f.gres && !f.slinky:
		return exitcode.With(exitcode.Usage, errors.New("give one of --features, --gres and --slinky: Slurm's number of GRES does not change with a feature"))
	case !f.gres && (f.nvml || f.write != ""):
		return exitcode.With(exitcode.Usage, errors.New("--nvml and --write need --gres"))
	case f.types != exactTypes && f.types != plainTypes:
		return exitcode.With(exitcode.Usage, fmt.Errorf("--types: unknown form (found %q, want exact or plain)", f.types))
	case f.types == plainTypes && (!f.gres || f.nvml):
		return exitcode.With(exitcode.Usage, errors.New("--types plain needs --gres, without --nvml: NVML has only the exact types"))
	case f.features:
		return slurmFeatures(ctx, h, con)
	}
	g, err := generic(ctx, h, f.nvml)
	if f.types == plainTypes {
		g = g.Plain()
	}
	switch {
	case f.write != "":
		return writeGres(ctx, h, con, g, err, f.write)
	case err != nil:
		return err
	case f.slinky:
		g.NVML = g.HasInstances() // the numbers of their device nodes differ between nodes
		fmt.Fprint(con.Out, g.Slinky())
	default:
		fmt.Fprint(con.Out, g.Lines())
	}
	return nil
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
