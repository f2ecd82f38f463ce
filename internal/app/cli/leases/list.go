package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// LeasesCmd is dcm lease list.
func LeasesCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "leases [--long | --json | --extend LEASE --time TIME]",
		Short: "List the leases with their owners, partitions and time limits, or extend one",
		Long: `List the leases, the oldest first, each with its unit, user, program, start, end if it has a
time limit, and partitions. They are read from systemd; the daemon need not run. Partitions of one
GPU are joined, as in 0000:05:00.0-[0-3]; of more than three GPUs only the numbers are shown.

With --extend, set a later time limit. The time counts from the start of the lease (--time 8h),
or is added to the present limit (--time +1h). Root can extend any lease. A user can extend only the user's own, up to
max-time of the configuration, and not while a request of another user waits.`,
		Args: console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	long := cmd.Flags().Bool("long", false, "name each partition")
	unit := cmd.Flags().String("extend", "", "set the time limit of this `LEASE`")
	limit := cmd.Flags().String("time", "", "with --extend: the `TIME` since the start of the lease, or +TIME to add")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("extend", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeLeases(h), cobra.ShellCompDirectiveNoFileComp
	}))
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		extend := c.Flags().Changed("extend")
		switch {
		case extend != c.Flags().Changed("time"):
			return exitcode.With(exitcode.Usage, errors.New("--extend and --time must be given together"))
		case extend && *asJSON:
			return exitcode.With(exitcode.Usage, errors.New("--json cannot be combined with --extend"))
		case *long && (extend || *asJSON):
			return exitcode.With(exitcode.Usage, errors.New("--long cannot be combined with --extend or --json"))
		case extend:
			return extendLease(c.Context(), h, con, *unit, *limit)
		}
		return list(c.Context(), h, con, *asJSON, *long)
	}
	return cmd
}

// ExtendCmd is dcm lease extend.
func ExtendCmd(h *host.Host, con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "extend LEASE TIME",
		Short: "Set a later time limit of a lease",
		Long: `Set a later time limit of a lease. The time counts from the start of the lease (8h), or is added to the
present limit (+1h). Root can extend any lease. A user can extend only the user's own, up to max-time of the
configuration, and not while a request of another user waits.`,
		Example: "  dcm lease extend 4f1c +1h",
		Args:    console.Args(cobra.ExactArgs(2)),
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(given) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeLeases(h), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, given []string) error {
			return extendLease(c.Context(), h, con, given[0], given[1])
		},
	}
}

// extendTimeout limits the wait for the daemon, which may delay a reload of systemd.
const extendTimeout = time.Minute

func extendLease(ctx context.Context, h *host.Host, con *console.Console, unit, value string) error {
	ctx, cancel := context.WithTimeout(ctx, extendTimeout)
	defer cancel()
	limit, err := console.ParseDuration(value)
	if err == nil && limit <= 0 {
		err = fmt.Errorf("too short (found %s, want a time such as 30m or 8h, or +1h)", value)
	}
	if err != nil {
		return exitcode.With(exitcode.Usage, fmt.Errorf("time limit: %w", err))
	}
	if unit, err = findLease(h, unit); err != nil {
		return err
	}
	since, present, err := termOf(ctx, h, unit)
	if err != nil {
		return err
	}
	set := limit
	for {
		if strings.HasPrefix(value, "+") {
			set = present + limit
		}
		// A repeated call has no further effect, since the limit counts from the start of the lease.
		err = client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) error {
			return c.Extend(ctx, unit, set)
		})
		before := present
		if err == nil || set == limit {
			break
		}
		var unread error
		if since, present, unread = termOf(ctx, h, unit); unread != nil || present <= before {
			break
		}
		// Another call has extended the lease in the meantime: the time is added to its limit.
	}
	if dbusapi.IsImpossible(err) {
		return exitcode.With(exitcode.Permanent, err)
	}
	if err == nil && !since.IsZero() {
		con.Printf("%s ends at %s\n", unit, since.Add(set).Local().Format(time.DateTime))
	}
	return err
}

// termOf returns the start of a lease and its time limit, 0 for none. Both are zero for a lease that has ended.
func termOf(ctx context.Context, h *host.Host, unit string) (since time.Time, limit time.Duration, err error) {
	all, err := leaseservice.List(ctx, h)
	i := slices.IndexFunc(all, func(l status.Lease) bool { return l.Lease == unit })
	if err != nil || i < 0 {
		return since, 0, err
	}
	if all[i].Until != nil {
		limit = all[i].Until.Sub(all[i].Since)
	}
	return all[i].Since, limit, nil
}

func list(ctx context.Context, h *host.Host, con *console.Console, asJSON, long bool) error {
	all, err := leaseservice.List(ctx, h)
	switch {
	case err != nil:
		return err
	case asJSON:
		return con.Answer(all)
	case len(all) == 0:
		con.Println("There is no lease.")
		return nil
	}
	printLeases(con, all, long)
	return nil
}

// longWidth is the width of a terminal on which dcm lease list --long has all columns. Its last column is wrapped.
const longWidth = 120

func printLeases(con *console.Console, all []status.Lease, long bool) {
	t := con.NewTable("LEASE", "USER", "COMMAND", "SINCE", "UNTIL", "PARTITIONS")
	if width := con.Width(); !long || width < longWidth {
		t.Optional("SINCE", "COMMAND")
	}
	for _, l := range all {
		until := "-"
		if l.Until != nil {
			until = l.Until.Local().Format(time.DateTime)
		}
		t.Row(l.Lease, l.User, console.OrDash(l.Command), l.Since.Local().Format(time.DateTime), until, held(l.Partitions, long))
	}
	t.Flush()
}

// held returns the partitions of a lease: each name if long is set, else those of each GPU joined. Of more than
// maxGPUs it returns the numbers of partitions and GPUs, since their names fill several lines.
func held(names []string, long bool) string {
	const maxGPUs = 3
	joined := text.Partitions(names)
	switch gpus := len(strings.Fields(joined)); {
	case long:
		return strings.Join(names, " ")
	case gpus > maxGPUs:
		return fmt.Sprintf("%s of %d GPUs", text.Count(len(names), "partition"), gpus)
	}
	return joined
}
