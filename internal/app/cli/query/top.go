package query

import (
	"context"
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

// topOptions are the options of dcm top.
type topOptions struct {
	batch, once bool
	json        *bool
	order       top.Order
	count       int
	every       time.Duration
}

func TopCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [GPU] [-d TIME] [--sort COLUMN] [-r] [--all] [-b [-n N] | --once | --json [-n N]]",
		Short: "Show the use of the partitions continuously",
		Long: `Show how much of each partition is in use, how busy it is, and its holder, and refresh
the table. Keys: q quits, < and > choose the sort column, r reverses the order, space
refreshes immediately, h shows help. Free partitions of a GPU share a line, except with
--all or after a. GPU is the number or the address of one GPU.

With -b it prints a table for each sample, with --json one object per line.`,
		Args: console.Args(cobra.MaximumNArgs(1)),
	}
	var o topOptions
	f := cmd.Flags()
	f.BoolVarP(&o.batch, "batch", "b", false, "print a table for each sample")
	f.BoolVar(&o.once, "once", false, "print one table, as -b -n 1")
	o.json = con.JsonFlag(cmd)
	f.IntVarP(&o.count, "number", "n", 0, "stop after `N` samples")
	o.every = 2 * time.Second
	console.DurationFlag(cmd, &o.every, "delay", "d", "`TIME` between two samples")
	f.StringVar(&o.order.By, "sort", "busy", "sort by that `COLUMN`: "+strings.Join(top.Columns(), ", "))
	f.BoolVarP(&o.order.Reverse, "reverse", "r", false, "reverse the order")
	f.BoolVar(&o.order.Each, "all", false, "give each free partition a line of its own")
	cmd.RunE = func(c *cobra.Command, given []string) error {
		if err := o.check(con); err != nil {
			return exitcode.With(exitcode.Usage, err)
		}
		return o.run(c.Context(), h, con, given)
	}
	return cmd
}

// minInterval is the shortest interval between two samples. For each sample the driver queries
// the firmware of each GPU.
const minInterval = 500 * time.Millisecond

func (o *topOptions) check(con *console.Console) error {
	if o.once {
		o.batch, o.count = true, max(1, o.count)
	}
	switch {
	case o.every < minInterval:
		return fmt.Errorf("--delay: too short (found %s, want %s or more)", o.every, minInterval)
	case o.count < 0:
		return fmt.Errorf("--number: must not be negative (found %d)", o.count)
	case !slices.Contains(top.Columns(), o.order.By):
		return fmt.Errorf("--sort: unknown column (found %q, want one of %s)", sanitize.Text(o.order.By), strings.Join(top.Columns(), ", "))
	case o.count > 0 && !o.batch && !*o.json:
		return errors.New("--number requires -b or --json")
	case !o.batch && !*o.json && !(con.Terminal && term.IsTerminal(int(os.Stdin.Fd())) && sanitize.Env("TERM") != "dumb"):
		return errors.New("no terminal to draw on\nhint: print tables with dcm top -b, or one with --once")
	}
	return nil
}

func (o *topOptions) run(ctx context.Context, h *host.Host, con *console.Console, given []string) error {
	look := func(ctx context.Context) (status.Usage, error) { return client.Usage(ctx, h) }
	if len(given) > 0 {
		address, err := oneGPU(client.Account(ctx, h), given)
		if err != nil {
			return err
		}
		look = func(ctx context.Context) (status.Usage, error) {
			u, err := client.Usage(ctx, h)
			u.Parts = slices.DeleteFunc(u.Parts, func(p status.PartUse) bool { return p.GPU != address })
			return u, err
		}
	}
	switch {
	case *o.json:
		return top.Batch(ctx, look, o.every, o.count, func(u status.Usage) error { return con.AnswerLine(u) })
	case o.batch:
		return top.Batch(ctx, look, o.every, o.count, func(u status.Usage) error {
			_, err := fmt.Fprint(con.Out, top.Text(u, o.order, con.Width()))
			return err
		})
	}
	return top.Live(ctx, os.Stdin, os.Stdout, look, o.order, o.every, con.Coloured())
}
