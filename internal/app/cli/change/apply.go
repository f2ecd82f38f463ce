package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/leases/drain"
	"dcm/internal/linux/filelock"
)

func ApplyCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [PROFILE | --clear] [--when-idle] [--rolling | --ignore-budget]",
		Short: "Apply a profile now and show the progress",
		Long: `Apply the selected profile, restart the clients around the change, and show the
progress. If the GPUs match the profile, no unit is restarted.

With PROFILE, select that profile until the next boot, or until another one is selected
by 'dcm use' or by an edit. 'dcm apply --clear' ends such a selection.

With --when-idle, first wait until the last lease has ended (see 'dcm run'). If root
waits, no new leases are granted until then.

With --rolling, change one GPU after another: the next one changes when the clients are
active again and have been for settle-time. If the clients are not active, the command
fails, and the daemon continues when they are. Budgets limit how many units are down with
and without --rolling. With --ignore-budget, change all GPUs together in spite of them.
Both require root.`,
		Args:              console.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: console.ProfileNames(h),
	}
	clearing := cmd.Flags().Bool("clear", false, "return to the profile that is selected permanently")
	idle := cmd.Flags().Bool("when-idle", false, "wait until the last lease has ended")
	how := manner{}
	cmd.Flags().BoolVar(&how.rolling, "rolling", false, "change one GPU after another")
	cmd.Flags().BoolVar(&how.ignoreBudget, "ignore-budget", false, "stop more units than budgets permit")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		switch {
		case *clearing && len(given) > 0:
			return exitcode.With(exitcode.Usage, errors.New("--clear cannot be combined with a profile"))
		case how.rolling && how.ignoreBudget:
			return exitcode.With(exitcode.Usage, errors.New("--rolling cannot be combined with --ignore-budget"))
		case *idle:
			return applyIdle(c.Context(), h, con, given, *clearing, how)
		}
		return applyNow(c.Context(), h, con, given, *clearing, how)
	}
	return cmd
}

// applyIdle waits until no lease is left, and then selects and applies. New leases, if they
// are possible, are waited for too.
func applyIdle(ctx context.Context, h *host.Host, con *console.Console, given []string, clearing bool, how manner) error {
	if len(given) > 0 && given[0] != config.None {
		if err := CheckProfile(ctx, h, given); err != nil {
			return err
		}
	}
	if len(given) > 0 || clearing {
		if err := h.NeedRoot("applying a profile until reboot"); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		release, err := drain.Start(h, append([]string{"dcm"}, os.Args[1:]...))
		if errors.Is(err, filelock.ErrLocked) {
			return exitcode.With(exitcode.Transient, fmt.Errorf("nothing was changed: %s waits already", drain.Holder(h)))
		}
		if err != nil {
			return err
		}
		defer release()
	}
	for {
		err := leaseservice.AwaitIdle(ctx, h, func(list []gpu.Holder) { fmt.Fprintln(con.Out, waitingFor(list)) })
		if ctx.Err() != nil {
			return errors.New("nothing was changed: interrupted while waiting for leases")
		}
		if err != nil {
			return err
		}
		if err := applyNow(ctx, h, con, given, clearing, how); err == nil || len(host.LeaseHolders(h)) == 0 {
			return err
		}
	}
}

// waitingFor names the leases that are waited for.
func waitingFor(list []gpu.Holder) string {
	names := make([]string, len(list))
	for i, l := range list {
		names[i] = fmt.Sprintf("%s (%s)", l.Unit, l.LeaseOwner)
	}
	return "Waiting for the end of " + strings.Join(names, ", ") + "."
}
