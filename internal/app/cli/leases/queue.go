package leases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
	"dcm/internal/frontends/status"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

func QueueCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue [--json | --remove ID]",
		Short: "List the requests that wait for a lease, or remove one",
		Long: `List the requests that wait for a lease ('dcm run --wait') in the order in which they
are served. The ID is that of the waiting process.

With --remove ID, remove the request from the queue; its command fails. Root can remove
any request, a user only the user's own.`,
		Args: console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	remove := cmd.Flags().UintSlice("remove", nil, "remove the request with this `ID` from the queue")
	cmd.Flags().Lookup("remove").DefValue = "" // the help would show []
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("remove", func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return queuedIDs(c.Context(), h), cobra.ShellCompDirectiveNoFileComp
	}))
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case *asJSON && len(*remove) > 0:
			return exitcode.With(exitcode.Usage, errors.New("--json cannot be combined with --remove"))
		case len(*remove) > 0:
			return removeQueued(c.Context(), h, *remove)
		}
		return showQueue(c.Context(), h, con, *asJSON)
	}
	return cmd
}

// queueTimeout limits the wait for the daemon's answer.
const queueTimeout = 30 * time.Second

// queuedIDs completes the ID of a request.
func queuedIDs(ctx context.Context, h *host.Host) []cobra.Completion {
	queue, err := readQueue(ctx, h)
	if err != nil {
		return nil
	}
	var out []cobra.Completion
	for _, q := range queue {
		out = append(out, cobra.CompletionWithDesc(fmt.Sprint(q.ID), size(q)+" for "+q.User))
	}
	return out
}

func readQueue(ctx context.Context, h *host.Host) ([]status.Queued, error) {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	var text string
	err := client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) (err error) {
		text, err = c.Queue(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	queue := []status.Queued{}
	if err := json.Unmarshal([]byte(text), &queue); err != nil {
		return nil, fmt.Errorf("cannot read the daemon's answer: %w", err)
	}
	return queue, nil
}

func showQueue(ctx context.Context, h *host.Host, con *console.Console, asJSON bool) error {
	queue, err := readQueue(ctx, h)
	if err != nil {
		return err
	}
	if asJSON {
		return con.Answer(queue)
	}
	if len(queue) == 0 {
		con.Println("No request waits for a lease.")
		return nil
	}
	t := con.NewTable("POSITION", "ID", "USER", "SIZE", "TIME", "WAITING", "REASON")
	for _, q := range queue {
		t.Row(fmt.Sprint(q.Position), fmt.Sprint(q.ID), q.User, size(q), limit(q), time.Since(q.Since).Round(time.Second).String(), q.Reason)
	}
	t.Flush()
	return nil
}

func removeQueued(ctx context.Context, h *host.Host, ids []uint) error {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	var errs []error
	for _, id := range ids {
		if id == 0 || id > math.MaxInt32 {
			return exitcode.With(exitcode.Usage, fmt.Errorf("--remove: not the ID of a request (found %d, want 1 to %d)", id, math.MaxInt32))
		}
	}
	for _, id := range ids {
		errs = append(errs, client.CallDaemon(ctx, h, dbusapi.RetryPolicy{Limit: client.DaemonTimeout}, func(c *dbusapi.Client) error {
			return c.Dequeue(ctx, uint32(id))
		}))
	}
	return errors.Join(errs...)
}

// size describes what is requested.
func size(q status.Queued) string {
	out := text.Count(q.Partitions, "partition")
	if q.GPUs > 0 {
		out = text.Count(q.GPUs, "GPU")
	}
	switch {
	case len(q.Names) > 0:
		out = text.Few(q.Names)
	case partition.IsMode(q.Make):
		out += " in " + q.Make
	case q.Make != "":
		out = q.Make
	}
	switch {
	case q.Exclusive:
		out += ", exclusive"
	case q.Share > 0:
		out += fmt.Sprintf(", shared by %d", q.Share)
	}
	return out
}

// limit is the time limit of the lease.
func limit(q status.Queued) string {
	if q.Time == 0 {
		return "-"
	}
	return time.Duration(q.Time * float64(time.Second)).Round(time.Second).String()
}
