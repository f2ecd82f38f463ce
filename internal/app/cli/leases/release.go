package leases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/sanitize"
	"dcm/internal/text"
)

// ReleaseCmd is dcm lease release.
func ReleaseCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release LEASE... | --all | --user USER",
		Short: "End a lease and stop its processes",
		Long: `End leases by the names of their units: 'dcm lease list' lists them. The beginning of a name, or of its
last part, is enough, as in 'dcm lease release 4f1c'. Their processes get SIGTERM, and SIGKILL if they do
not exit in time. Root can end any lease, a user only the user's own.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completeLeases(h), cobra.ShellCompDirectiveNoFileComp
		},
	}
	all := cmd.Flags().Bool("all", false, "end all leases of the caller; as root those of all users")
	owner := cmd.Flags().String("user", "", "end all leases of this `USER`")
	cmd.Args = console.Args(func(c *cobra.Command, given []string) error {
		if *all || c.Flags().Changed("user") {
			return cobra.NoArgs(c, given)
		}
		return cobra.MinimumNArgs(1)(c, given)
	})
	cmd.RunE = func(c *cobra.Command, given []string) error {
		named := c.Flags().Changed("user")
		if *all && named {
			return exitcode.With(exitcode.Usage, errors.New("--all cannot be combined with --user"))
		}
		if !*all && !named {
			return releaseNamed(c.Context(), h, given)
		}
		return releaseAll(c.Context(), h, con, *owner, named)
	}
	return cmd
}

func releaseNamed(ctx context.Context, h *host.Host, given []string) error {
	var units []string
	for _, name := range given {
		unit, err := findLease(h, name)
		if err != nil {
			return err
		}
		if !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	return releaseEach(ctx, h, units)
}

// releaseAll ends the leases of a user, or if none is named, those of the caller; root's call ends those of all users.
func releaseAll(ctx context.Context, h *host.Host, con *console.Console, owner string, named bool) error {
	uid := os.Getuid()
	if named {
		found, ok := host.UID(owner)
		if !ok {
			return exitcode.With(exitcode.Usage, fmt.Errorf("--user: there is no user %s", sanitize.Text(owner)))
		}
		uid = int(found)
	}
	var units []string
	for _, name := range host.Leases(h) {
		if !named && uid == 0 || int64(name.UID) == int64(uid) {
			units = append(units, name.String())
		}
	}
	if len(units) == 0 {
		con.Println("There is no lease.")
		return nil
	}
	if err := releaseEach(ctx, h, units); err != nil {
		return err
	}
	con.Printf("%s ended\n", text.Count(len(units), "lease"))
	return nil
}

// releaseTimeout limits the wait for the daemon and its answer.
const releaseTimeout = time.Minute

// releaseEach ends all leases, also after an error.
func releaseEach(ctx context.Context, h *host.Host, units []string) error {
	var all []error
	for _, unit := range units {
		err := release(ctx, h, unit)
		if err != nil && len(units) > 1 {
			err = fmt.Errorf("%s: %w", unit, err)
		}
		all = append(all, err)
		if ctx.Err() != nil || errors.Is(err, dbusapi.ErrAbsent) {
			break
		}
	}
	return errors.Join(all...)
}

func release(ctx context.Context, h *host.Host, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	calls := 0
	err := client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) error {
		if calls++; calls > 1 && !slices.Contains(host.LeaseUnits(h), unit) {
			return nil // by the call that was not answered
		}
		return c.Release(ctx, unit)
	})
	if errors.Is(err, dbusapi.ErrAbsent) {
		return fmt.Errorf("%w\nhint: as root, run systemctl stop %s", err, unit)
	}
	return err
}
