package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/top"
	"dcm/internal/sanitize"
)

// topping is how dcm top was asked for.
type topping struct {
	batch, once, json bool
	reverse           bool
	count             int
	every             time.Duration
	sort              string
}

func TopCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [-d TIME] [--sort COLUMN] [-r] [-b [-n N] | --once | --json [-n N]]",
		Short: "Show how much of the partitions is in use, live",
		Long: `Show how much of the GPUs' partitions is in use, by whom, and how busy they are, again
and again. Keys: q quits, < and > choose the column to sort by, r reverses, space looks
at once, h explains.

With -b it prints a table at each look, with --json an object a line.`,
		Args: console.Args(cobra.NoArgs),
	}
	var o topping
	f := cmd.Flags()
	f.BoolVarP(&o.batch, "batch", "b", false, "print a table at each look")
	f.BoolVar(&o.once, "once", false, "print one table, as -b -n 1")
	f.BoolVar(&o.json, "json", false, "print each look as a line of JSON")
	f.IntVarP(&o.count, "number", "n", 0, "end after that many looks")
	o.every = 2 * time.Second
	console.DurationFlag(cmd, &o.every, "delay", "d", "the time between two looks")
	f.StringVar(&o.sort, "sort", "busy", "sort by that column: "+strings.Join(top.Columns(), ", "))
	f.BoolVarP(&o.reverse, "reverse", "r", false, "reverse the order")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.sensible(con); err != nil {
			return exitcode.With(exitcode.Usage, err)
		}
		return o.run(c.Context(), h, con)
	}
	return cmd
}

// shortest is how often a look may be: it makes the driver ask each GPU's firmware.
const shortest = 500 * time.Millisecond

func (o *topping) sensible(con *console.Console) error {
	if o.once {
		o.batch, o.count = true, max(1, o.count)
	}
	switch {
	case o.every < shortest:
		return fmt.Errorf("a delay is at least %s", shortest)
	case o.count < 0:
		return errors.New("the number of looks is not negative")
	case !slices.Contains(top.Columns(), o.sort):
		return fmt.Errorf("there is no column %q; there are %s", sanitize.Text(o.sort), strings.Join(top.Columns(), ", "))
	case o.count > 0 && !o.batch && !o.json:
		return errors.New("a number of looks is for -b and --json")
	case !o.batch && !o.json && !(con.Terminal && term.IsTerminal(int(os.Stdin.Fd())) && sanitize.Env("TERM") != "dumb"):
		return errors.New("this is no terminal that can be drawn on; print tables with dcm top -b, or one with --once")
	}
	return nil
}

func (o *topping) run(ctx context.Context, h *host.Host, con *console.Console) error {
	look := func(ctx context.Context) (status.Usage, error) { return client.Usage(ctx, h) }
	switch {
	case o.json:
		return top.Batch(ctx, look, o.every, o.count, func(u status.Usage) error { return json.NewEncoder(con.Out).Encode(u) })
	case o.batch:
		return top.Batch(ctx, look, o.every, o.count, func(u status.Usage) error {
			_, err := fmt.Fprint(con.Out, top.Text(u, o.sort, o.reverse))
			return err
		})
	}
	return top.Live(ctx, os.Stdin, os.Stdout, look, o.sort, o.every)
}
