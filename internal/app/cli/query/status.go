package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/journal"
	"dcm/internal/linux/watch"
)

func StatusCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [--long | --json] [--watch]",
		Short: "Show the profile, the GPUs, the clients and all problems",
		Long: `Show the selected profile, whether it is on the GPUs, the last run, the clients, the
GPUs and their partitions. Show every problem with a hint. GPUs that are alike share a
line; with --long, each GPU, client and unit has a line.

The exit status is that of a monitoring plugin. It is 0 if all is in order, 1 for a
warning, 2 for an alarm, 3 if the state is unknown. See dcm-account(5).`,
		Args: console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	long := cmd.Flags().Bool("long", false, "show a line for each GPU, client and unit")
	follow := cmd.Flags().Bool("watch", false, "show the status again after every change")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		show := func(a status.Account) error { return printStatus(con, a, *long, *asJSON) }
		switch {
		case *long && *asJSON:
			return exitcode.With(exitcode.Usage, errors.New("--long cannot be combined with --json"))
		case *follow:
			return watchStatus(c.Context(), h, con, show)
		}
		return showStatus(client.Account(c.Context(), h), show)
	}
	return cmd
}

// Overview shows the status, and the command for help.
func Overview(ctx context.Context, h *host.Host, con *console.Console) error {
	return showStatus(client.Account(ctx, h), func(a status.Account) error {
		err := printStatus(con, a, false, false)
		con.Println("\n'dcm help' lists the commands.")
		return err
	})
}

func showStatus(a status.Account, show func(status.Account) error) error {
	if err := show(a); err != nil {
		return err
	}
	if a.Health.Code != status.CodeOK {
		return exitcode.With(a.Health.Code, nil)
	}
	return nil
}

func printStatus(con *console.Console, a status.Account, long, asJSON bool) error {
	if asJSON {
		return con.Answer(a)
	}
	_, err := con.Out.Write(StatusText(con, a, time.Now(), long))
	return err
}

// watchStatus prints the status now and after every change, until interrupted.
func watchStatus(ctx context.Context, h *host.Host, con *console.Console, show func(status.Account) error) error {
	changed, err := watch.Files(ctx, []string{h.Runtime(), h.Path("etc/dcm")}, 100*time.Millisecond, journal.Log(con.Err, "dcm"))
	if err != nil {
		return err
	}
	for {
		a := client.Account(ctx, h)
		if con.Terminal {
			fmt.Fprint(con.Out, "\x1b[H\x1b[2J")
		}
		if err := show(a); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
