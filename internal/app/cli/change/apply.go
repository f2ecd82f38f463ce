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
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/gpu"
	"dcm/internal/leases/drain"
	"dcm/internal/linux/filelock"
)

func ApplyCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [PROFILE] [--when-idle]",
		Short: "Put a profile on the GPUs now and follow it",
		Long: `Have the daemon put the selected profile on the GPUs, restarting the client units
around the change, and follow it to its end. If the GPUs are as selected, no unit
is restarted.

With PROFILE that one is selected until reboot, or until another one is selected for
good, with 'dcm use' or by an edit. 'dcm apply --clear' ends such a selection.

With --when-idle it waits first until the last lease has ended (see 'dcm run'), and as
root has no new ones given until it is through.`,
		Args:              console.Args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: console.ProfileNames(h),
	}
	clearing := cmd.Flags().Bool("clear", false, "go back to the profile selected for good")
	idle := cmd.Flags().Bool("when-idle", false, "wait until the last lease has ended")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if *clearing && len(given) > 0 {
			return exitcode.With(exitcode.Usage, errors.New("--clear takes no profile"))
		}
		if *idle {
			return applyIdle(c.Context(), h, con, given, *clearing)
		}
		return applyNow(c.Context(), h, con, given, *clearing)
	}
	return cmd
}

// applyIdle waits for the leases to end, before anything is selected. Where new ones
// may be given meanwhile, to a user's command, it waits for these too.
func applyIdle(ctx context.Context, h *host.Host, con *console.Console, given []string, clearing bool) error {
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
			return errors.New("nothing was changed: it is not waited for any longer")
		}
		if err != nil {
			return err
		}
		if err := applyNow(ctx, h, con, given, clearing); err == nil || len(host.LeaseHolders(h)) == 0 {
			return err
		}
	}
}

func waitingFor(list []gpu.Holder) string {
	names := make([]string, len(list))
	for i, l := range list {
		names[i] = fmt.Sprintf("%s (%s)", l.Unit, l.LeaseOwner)
	}
	return "Waiting for the end of " + strings.Join(names, ", ") + "."
}

func applyNow(ctx context.Context, h *host.Host, con *console.Console, given []string, clearing bool) error {
	if remote(h) && len(given) == 0 && !clearing {
		return applyRemote(ctx, h, con)
	}
	if err := h.NeedRoot("applying a profile until reboot"); err != nil {
		return err
	}
	if len(given) > 0 && given[0] != config.None {
		if err := CheckProfile(ctx, h, given); err != nil {
			return err
		}
	}
	want := ""
	if len(given) > 0 {
		want = given[0]
	}
	return Follow(ctx, h, con, want, func() error {
		switch paths := config.DefaultPaths(h.Root); {
		case clearing:
			return selection.ClearRuntime(paths)
		case len(given) > 0:
			return selection.SelectRuntime(paths, given[0])
		}
		return nil
	})
}
