package configure

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
	"dcm/internal/leases/reservation"
)

func CheckCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE] [--all] [--node KIND | --json | --effective [--json]]",
		Short: "Check the configuration, the GPUs and the host",
		Long: `Check the configuration, or the one that would result if FILE replaced
/etc/dcm/dcm.toml. On a host with GPUs, or with --node, check every profile against
the GPUs, and the reservations against every profile. Profiles that do not fit are named
in one line; --all gives the reasons. Without FILE and --node, also check the host for
known causes of failure, see dcm-check(7). --json prints the result of these host checks
alone. FILE may be - for standard input. --effective prints each value of the merged
configuration with its file and line, and checks nothing else. Exit status 78: the configuration has an error.
1: FILE does not exist, the selected profile does not fit the GPUs, or a host check found
an error.`,
		Example: "  dcm check\n  dcm check ./dcm.toml --node mi300x-8\n  dcm check --effective",
		Args:    console.Args(cobra.MaximumNArgs(1)),
	}
	kind := nodemodel.NodeFlag(cmd, "check against a `KIND` of node")
	asJSON := con.JsonFlag(cmd)
	all := cmd.Flags().Bool("all", false, "give the reason of each profile that does not fit, and the source of each remark")
	effective := cmd.Flags().Bool("effective", false, "print each value with its file and line")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if err := console.Exclusive(c, [2]string{"effective", "node"}, [2]string{"effective", "all"}, [2]string{"json", "node"}, [2]string{"json", "all"}); err != nil {
			return err
		}
		if *effective {
			return listEffective(h, con, given, *asJSON)
		}
		cfg, err := load(h, given)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return answerHost(c.Context(), h, con, cfg)
		case *kind != "" || len(given) > 0:
			return check(c.Context(), h, con, cfg, *kind, *all)
		}
		return errors.Join(check(c.Context(), h, con, cfg, "", *all), checkHost(c.Context(), h, con, cfg))
	}
	return cmd
}

func check(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config, kind string, all bool) error {
	for _, w := range cfg.Warnings {
		con.Warn(w)
	}
	con.Printf("The configuration is valid: %d profiles are defined, %s.\n", len(cfg.Profiles), selectionText(cfg))
	if kind == "" {
		checkClients(ctx, h, con, cfg)
		checkRestart(ctx, h, con, cfg)
		checkNodes(h, con)
	}
	var misplaced error
	if kind == "" {
		misplaced = checkReserved(h, cfg)
		for _, w := range append(reservation.Elsewhere(h, cfg.Observers), host.UnknownUnits(ctx, h, cfg)...) {
			con.Warn(w)
		}
	}
	gpus, err := nodemodel.GPUs(ctx, h, cfg, kind)
	if err != nil {
		return err
	}
	if len(gpus) == 0 {
		con.Println("There are no partitionable GPUs here to check it against; see --node.")
		return misplaced
	}
	if kind == "" {
		known := func(user string) bool { _, ok := host.UID(user); return ok }
		for _, w := range unmetReservations(cfg.UserReservations, gpus, known) {
			con.Warn(w)
		}
	}
	if text := miscounted(h, cfg, gpus, kind); text != "" {
		con.Warn(text)
	}
	r := review{cfg: cfg, gpus: gpus, name: func(text string) string { return text }}
	if kind != "" {
		r.name, r.minors = nodemodel.NamesByIndex(gpus), gpu.UnusedMinors(host.OpenNode(h, nil).Drivers().Traits())
	} else if r.minors, err = host.Minors(h); err != nil {
		return errors.Join(misplaced, err)
	}
	return errors.Join(misplaced, r.profiles(con, all))
}

// miscounted says that there is another number of GPUs than there should be, "" if there
// is not. What was known at the last success is of this host alone.
func miscounted(h *host.Host, cfg *config.Config, gpus []partition.GPU, kind string) string {
	want := status.Expect(cfg.Count, nil, nil)
	if kind == "" {
		there := make([]string, len(gpus))
		for i, g := range gpus {
			there[i] = string(g.Address)
		}
		want = gather.Expected(h, cfg, there)
	}
	if len(gpus) < want.GPUs {
		return want.Text(len(gpus))
	}
	return want.More(len(gpus))
}

// checkClients names the clients that systemd cannot restart. Without systemd, as in a
// chroot, it names none.
func checkClients(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config) {
	if !h.Here() {
		return
	}
	now, err := gather.UnitStates(ctx, h, host.Clients(h, cfg), nil, false)
	if err != nil {
		return
	}
	a := status.Account{Clients: now.Clients}
	for _, w := range a.Unfit() {
		con.Warn(w)
	}
}

// checkReserved returns an error for units that cannot start with their reservation.
func checkReserved(h *host.Host, cfg *config.Config) error {
	if err := reservation.Misplaced(h, cfg.Reservations); err != nil {
		return fmt.Errorf("%w\nhint: %s", err, gpu.Hint(err))
	}
	return nil
}

func checkNodes(h *host.Host, con *console.Console) {
	if p := gather.FalseNode(h); p != nil {
		con.Warn(runstate.WithHint(p.Text, p.Hint))
	}
}

func selectionText(cfg *config.Config) string {
	if cfg.Selected == "" {
		return "none is selected"
	}
	return fmt.Sprintf("%s is selected (%s)", cfg.Selected, cfg.Source)
}
