package leases

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/dbusapi"
)

// HoldCmd is dcm lease hold.
func HoldCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold [-n N | --gpus N | --gpu GPU,... | --partition PARTITION,...] [--place PLACE] [--vendor VENDOR] [--mode MODE] [--exclusive | --share N] [--make PROFILE | --make MODE] [--wait[=TIME]] [--time TIME] [--until-idle TIME] [--json]",
		Short: "Hold partitions without a command, also after the end of the shell",
		Long: `Make a lease that lasts until its time limit or 'dcm lease release'. Print its name and the
environment of its commands, one variable a line, quoted for a shell. With --until-idle, it also ends when
no command has been in it for that time.

'dcm run --lease NAME -- COMMAND' executes a command in the lease.`,
		Args: console.Args(cobra.NoArgs),
	}
	var w dbusapi.Request
	addRequest(cmd, &w)
	asJSON := con.JsonFlag(cmd)
	var idle idleValue
	cmd.Flags().Var(&idle, "until-idle", "end the lease when no command has been in it for this `TIME`, such as 30m")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkRequest(w, c.Flags().Changed); err != nil {
			return exitcode.With(exitcode.Usage, err)
		}
		w.Command, w.Hold = "hold", true
		return hold(c.Context(), h, con, w, time.Duration(idle), *asJSON)
	}
	return cmd
}

// hold makes a lease and leaves a process in it.
func hold(ctx context.Context, h *host.Host, con *console.Console, w dbusapi.Request, idle time.Duration, asJSON bool) error {
	if err := mayOpen(h, w); err != nil {
		return err
	}
	l, err := acquire(ctx, h, w, con.Note)
	if err != nil {
		return err
	}
	// A lease without a known name would stay. After this error it ends with this process, which is alone in it.
	if err := writeHeld(con, l, describe(ctx, h, con, nil, l), asJSON); err != nil {
		return fmt.Errorf("no lease: cannot write its name: %w", err)
	}
	if err := keep(h, l.Unit, idle); err != nil {
		return fmt.Errorf("no lease: cannot start the process that keeps it: %w", err)
	}
	return nil
}

// writeHeld writes the name and the environment of a lease.
func writeHeld(con *console.Console, l dbusapi.Lease, env []string, asJSON bool) error {
	if asJSON {
		return con.Answer(map[string]any{"lease": l.Unit, "partitions": l.Partitions, "environment": env})
	}
	var b strings.Builder
	for _, variable := range env {
		name, text, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&b, "%s='%s'\n", name, text) // names of partitions and devices have no quotes
	}
	_, err := io.WriteString(con.Out, b.String())
	return err
}
