package change

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

func ApplyCmd(h *host.Host, con *console.Console, jobs Scheduler) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [PROFILE | --clear] [--when-idle | --wait[=TIME]] [--rolling | --ignore-budget] [--confirm TIME]",
		Short: "Apply a profile now and show the progress",
		Long: `Apply the selected profile, restart the clients around the change, and show the
progress. If the GPUs match the profile, no unit is restarted.

With PROFILE, select that profile until the next boot, or until another one is selected
by 'dcm use' or by an edit. 'dcm apply --clear' ends such a selection.

With --confirm, the selection ends when the time is over, unless 'dcm confirm' keeps it.

With --when-idle, first wait until the last lease has ended (see 'dcm run'). With
unit-of-change = "gpu", change each GPU as soon as no lease blocks it. If root waits,
no new leases are granted on the GPUs that are still to be changed.

With --wait, wait for the processes and leases that block the change before anything is
changed. After the time of --wait=TIME, the exit status is 75 and the error names them.

With --rolling, change one GPU after another: the next one changes when the clients have
been active again for settle-time. If a client is down, the command fails, and the daemon
continues when it is up. Budgets limit how many units are down, with and without --rolling.
With --ignore-budget, change all GPUs together, whatever the budgets. Both require root.

On a node of Slurm the command exits with 75 if jobs have GPUs that change. With
--when-idle it drains the node, waits for these jobs, and resumes the node.`,
		Args:              console.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: nodemodel.ProfileNames(h),
	}
	clearing := cmd.Flags().Bool("clear", false, "return to the profile that is selected permanently")
	idle := cmd.Flags().Bool("when-idle", false, "wait for the end of the leases")
	how, check := manner{}, jobCheck{h, con, jobs}
	cmd.Flags().BoolVar(&how.rolling, "rolling", false, "change one GPU after another")
	cmd.Flags().BoolVar(&how.ignoreBudget, "ignore-budget", false, "stop more units than budgets permit")
	within := confirmFlag(cmd)
	var wait holderWait
	wait.addFlag(cmd.Flags())
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if err := checkConfirm(c, *within, strings.Join(given, "")); err != nil {
			return err
		}
		how.confirm = *within
		switch {
		case *clearing && len(given) > 0:
			return exitcode.With(exitcode.Usage, errors.New("--clear cannot be combined with a profile"))
		case *idle && how.confirm > 0:
			return exitcode.With(exitcode.Usage, errors.New("--confirm cannot be combined with --when-idle"))
		case how.rolling && how.ignoreBudget:
			return exitcode.With(exitcode.Usage, errors.New("--rolling cannot be combined with --ignore-budget"))
		case wait.wait && (*clearing || *idle):
			return exitcode.With(exitcode.Usage, errors.New("--wait cannot be combined with --clear or --when-idle"))
		case *idle:
			resume, err := check.await(c.Context(), check.profile(given, *clearing)...)
			if err != nil {
				return err
			}
			defer resume()
			return applyIdle(c.Context(), h, con, given, *clearing, how)
		}
		if err := check.refuse(c.Context(), check.profile(given, *clearing)...); err != nil {
			return err
		}
		return applyAfter(c.Context(), h, con, given, *clearing, how, wait)
	}
	return cmd
}

// applyAfter is applyNow after a wait for holders.
func applyAfter(ctx context.Context, h *host.Host, con *console.Console, given []string, clearing bool, how manner, wait holderWait) error {
	change := func() error { return applyNow(ctx, h, con, given, clearing, how) }
	if !wait.wait || len(given) > 0 && given[0] == config.None {
		return change()
	}
	if err := h.NeedRoot("applying a profile until reboot"); err != nil && len(given) > 0 {
		return err
	}
	return wait.before(ctx, h, con, given, change)
}
