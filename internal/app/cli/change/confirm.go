package change

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/config/selection"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
)

func ConfirmCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "confirm",
		Short: "Keep the profile that was selected with --confirm",
		Long: `Keep the profile that 'dcm use --confirm' or 'dcm apply --confirm' has selected. Otherwise
dcm selects the former profile again at the deadline, which 'dcm status' shows.`,
		Example: "  dcm use cpx-nps4 --confirm 10m\n  dcm confirm",
		Args:    console.Args(cobra.NoArgs),
	}
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if remote(h) {
			return confirmRemote(c.Context(), h, con)
		}
		if err := h.NeedRoot("confirming a selection"); err != nil {
			return err
		}
		kept, err := selection.Confirm(config.DefaultPaths(h.Root), "")
		if errors.Is(err, selection.ErrNoneUnconfirmed) {
			return nothingToConfirm(err)
		}
		if err == nil {
			con.Println(confirmed(kept.Profile, kept.Permanent))
		}
		return err
	}
	return cmd
}

// confirmRemote makes the daemon confirm the selection, if polkit authorises the user.
func confirmRemote(ctx context.Context, h *host.Host, con *console.Console) error {
	cfg, err := h.Config()
	switch {
	case err != nil:
		return err
	case cfg.Unconfirmed == nil:
		return nothingToConfirm(selection.ErrNoneUnconfirmed)
	}
	u := cfg.Unconfirmed
	err = client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) error {
		return c.Confirm(ctx, config.OrNone(u.Profile))
	})
	_, overtaken := errors.AsType[*dbusapi.OvertakenError](err)
	switch {
	case overtaken:
		return nothingToConfirm(err)
	case errors.Is(err, dbusapi.ErrAbsent) || errors.Is(err, dbusapi.ErrDenied):
		return byRootOnly("confirming a selection", err)
	case err == nil:
		con.Println(confirmed(u.Profile, u.Permanent))
	}
	return err
}

func nothingToConfirm(err error) error {
	return exitcode.With(exitcode.Overtaken, fmt.Errorf("%w\nhint: dcm status shows the selected profile, and dcm history shows why", err))
}

func confirmed(profile string, permanent bool) string {
	until := "until reboot"
	if permanent {
		until = "permanently"
	}
	return fmt.Sprintf("Profile %s is confirmed. It is selected %s.", config.OrNone(profile), until)
}

// confirmFlag adds the option --confirm.
func confirmFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("confirm", 0, "select the former profile again after this `TIME` unless 'dcm confirm' is called")
}

// checkConfirm refuses an option --confirm that is not possible for the profile, "" for none.
func checkConfirm(cmd *cobra.Command, within time.Duration, profile string) error {
	var problem string
	switch {
	case !cmd.Flags().Changed("confirm"):
		return nil
	case !config.ValidConfirmWindow(within):
		problem = fmt.Sprintf("--confirm: out of range (found %s, want %s)", within, config.ConfirmWindows)
	case profile == "":
		problem = "--confirm: no profile given (want PROFILE or none)"
	default:
		return nil
	}
	return exitcode.With(exitcode.Usage, errors.New(problem))
}
