package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
)

// remote reports whether the command needs the daemon for a change that the user cannot make.
func remote(h *host.Host) bool { return os.Geteuid() != 0 && h.Here() }

// useRemote makes the daemon select a profile, if polkit authorises the user, and shows the
// run.
func useRemote(ctx context.Context, h *host.Host, con *console.Console, name string, within time.Duration) error {
	if within > 0 {
		return useRemoteUnconfirmed(ctx, h, con, name, within)
	}
	// It is not repeated: another profile may have been selected in between.
	return followRemote(ctx, h, con, "selecting a profile", name, dbusapi.RetryPolicy{Limit: client.DaemonTimeout, Once: true}, func(c *dbusapi.Client) error {
		_, err := c.Use(ctx, name)
		return err
	})
}

// useRemoteUnconfirmed is useRemote for a selection that has to be confirmed.
func useRemoteUnconfirmed(ctx context.Context, h *host.Host, con *console.Console, name string, within time.Duration) error {
	defer announceDeadline(h, con)
	return followRemote(ctx, h, con, "selecting a profile", name, dbusapi.RetryPolicy{Limit: client.DaemonTimeout, Once: true}, func(c *dbusapi.Client) error {
		_, err := c.UseUntilConfirmed(ctx, name, within, false)
		return err
	})
}

// applyRemote makes the daemon apply the selected profile in the same way.
func applyRemote(ctx context.Context, h *host.Host, con *console.Console) error {
	return followRemote(ctx, h, con, "applying a profile", "", dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) error {
		_, err := c.Apply(ctx)
		return err
	})
}

func followRemote(ctx context.Context, h *host.Host, con *console.Console, what, want string, w dbusapi.RetryPolicy, ask func(*dbusapi.Client) error) error {
	return watchRun(ctx, h, con, func() error { return client.CallDaemon(ctx, h, w, ask) }, func(view *progress, err error) error {
		if errors.Is(err, dbusapi.ErrAbsent) || errors.Is(err, dbusapi.ErrDenied) {
			return byRootOnly(what, err)
		}
		return concluded(ctx, h, con, view, want, err)
	})
}

// byRootOnly is the error of a change that the daemon refused.
func byRootOnly(what string, err error) error {
	return exitcode.With(exitcode.Failed, fmt.Errorf("%s: %w\nhint: run it with sudo", what, err))
}
