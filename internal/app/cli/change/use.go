package change

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/app/plan"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

func UseCmd(h *host.Host, con *console.Console, jobs Scheduler) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "use PROFILE | none | --clear [--until-reboot] [--confirm TIME] [--wait[=TIME]]",
		Short: "Select a profile permanently, apply it and show the progress",
		Long: `Select the profile in /etc/dcm/dcm.toml, where only the profile line changes. Then apply
it and show the progress. 'none' selects no profile, --clear removes the line. A
selection until reboot ends. With --until-reboot, select it until the next boot instead,
as 'dcm apply PROFILE' does; --clear ends such a selection.

With --confirm, select the profile until 'dcm confirm' keeps it. Without that call, dcm
selects the former profile again when the time is over, and at the next boot.

If a drop-in or the kernel command line selects a profile, it takes precedence. The
command then changes nothing and fails.

With --wait, wait for the processes and leases that block the change before anything is
changed. After the time of --wait=TIME, the exit status is 75 and the error names them.

On a node of Slurm it changes nothing, and exits with 75, if jobs have GPUs that change.`,
		Args:              console.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: useNames(h),
	}
	clearing := cmd.Flags().Bool("clear", false, "remove the selection from dcm.toml")
	untilReboot := cmd.Flags().Bool("until-reboot", false, "select the profile until the next boot")
	within, check := confirmFlag(cmd), jobCheck{h, con, jobs}
	var wait holderWait
	wait.addFlag(cmd.Flags())
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if err := checkConfirm(c, *within, strings.Join(given, "")); err != nil {
			return err
		}
		if len(given) > 0 && given[0] != "" && !*clearing {
			if err := check.refuse(c.Context(), given[0]); err != nil {
				return err
			}
		}
		switch {
		case *clearing && len(given) > 0:
			return exitcode.With(exitcode.Usage, errors.New("--clear cannot be combined with a profile"))
		case *clearing && wait.wait:
			return exitcode.With(exitcode.Usage, errors.New("--wait cannot be combined with --clear"))
		case *untilReboot && (*clearing || len(given) > 0 && given[0] != ""):
			return applyAfter(c.Context(), h, con, given, *clearing, manner{confirm: *within}, wait)
		case *clearing:
			return use(c.Context(), h, con, "", 0)
		case len(given) == 0 || given[0] == "":
			return exitcode.With(exitcode.Usage, errors.New("no profile given (want PROFILE, none or --clear)"))
		}
		return useAfter(c.Context(), h, con, given[0], *within, wait)
	}
	return cmd
}

// useNames completes the name of a profile, or none.
func useNames(h *host.Host) cobra.CompletionFunc {
	profiles := nodemodel.ProfileNames(h)
	return func(c *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, directive := profiles(c, given, typed)
		if len(given) == 0 {
			names = append(names, cobra.CompletionWithDesc(config.None, "select no profile"))
		}
		return names, directive
	}
}

// useAfter is use after a wait for holders.
func useAfter(ctx context.Context, h *host.Host, con *console.Console, name string, within time.Duration, wait holderWait) error {
	change := func() error { return use(ctx, h, con, name, within) }
	if !wait.wait || name == config.None {
		return change()
	}
	if err := h.NeedRoot("selecting a profile"); err != nil && !remote(h) {
		return err
	}
	return wait.before(ctx, h, con, []string{name}, change)
}

func use(ctx context.Context, h *host.Host, con *console.Console, name string, within time.Duration) error {
	if remote(h) && name != "" {
		return useRemote(ctx, h, con, name, within)
	}
	if err := h.NeedRoot("selecting a profile"); err != nil {
		return err
	}
	if name != "" && name != config.None {
		if err := client.AwaitReload(ctx, h, con.Note); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		_, d, _, err := plan.Compare(ctx, h, client.FromDaemon(h), name)
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		if remark := plan.OtherVendor(d, name); remark != "" {
			con.Note(remark)
		}
	}
	if within == 0 {
		return Follow(ctx, h, con, name, func() error { return host.Select(h, name) })
	}
	noteFormer(ctx, h, con)
	return Follow(ctx, h, con, name, func() error { return selectUnconfirmed(h, con, name, within, true) })
}
