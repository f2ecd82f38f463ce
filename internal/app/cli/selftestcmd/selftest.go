package selftestcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/imagined"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

func SelftestCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "selftest [--read | --change] [--archive FILE] [--power-was-off]",
		Short: "Find out whether dcm is right about these GPUs",
		Long: `Say what a self-test would do, and do nothing. With --read, look at the GPUs in every
way that there is, hold the ways against each other and against what is known of such
GPUs, and change nothing. With --change, take the GPUs through their modes too, in the
same way as any change, with the clients restarted around each, and back to what they
were, also where the self-test is killed.

The result is written to an archive, for the maintainers of dcm. It holds no names of
hosts, users or units, and no serial numbers. The exit status is 0 if nothing is wrong,
2 if something is, 1 if it could not be found out, 75 if the GPUs are in use.`,
		Args: console.Args(cobra.NoArgs),
	}
	var o selftestOptions
	f := cmd.Flags()
	f.BoolVar(&o.read, "read", false, "look, and change nothing")
	f.BoolVar(&o.change, "change", false, "take the GPUs through their modes, and back")
	f.StringVar(&o.archive, "archive", "", "where the archive goes, - for standard output; else a new `FILE` here")
	f.BoolVar(&o.powerOff, "power-was-off", false, "say that the power was off since the last self-test")
	f.BoolVar(&o.within, "within", false, "be the unit's first command")
	f.BoolVar(&o.back, "back", false, "be the unit's last command")
	f.StringVar(&o.untilReboot, "until-reboot", "", "with --back: `PROFILE` was selected until reboot")
	f.StringVar(&o.hold, "hold", "", "keep `NODE` open until standard input is closed")
	for _, name := range []string{"within", "back", "until-reboot", "hold"} {
		cobra.CheckErr(f.MarkHidden(name))
	}
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case o.read && o.change:
			return exitcode.With(exitcode.Usage, errors.New("--change looks, too: give one of --read and --change"))
		case o.hold != "":
			return selftestHold(con, o.hold)
		case o.back:
			return selftestBack(c.Context(), h, con, o.untilReboot)
		case o.change && o.within:
			return selftestWithin(c.Context(), h, con, o)
		case o.change:
			return selftestChange(c.Context(), h, con, o)
		case o.read:
			return selftestRead(c.Context(), h, con, o)
		case o.archive != "" || o.powerOff:
			return exitcode.With(exitcode.Usage, errors.New("--archive and --power-was-off go with --read and --change"))
		}
		return selftestPlan(c.Context(), h, con)
	}
	return cmd
}

// selftestPlan says what it would do.
func selftestPlan(ctx context.Context, h *host.Host, con *console.Console) error {
	cfg, gpus, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	fmt.Fprintf(con.Out, "Nothing is done without an option. dcm selftest --read looks at %d GPUs, and changes\nnothing.\n", len(gpus))
	before, err := selftest.Before(gpus)
	if err != nil {
		return err
	}
	targets := selftest.Targets(gpus, cfg.ReloadDriver)
	fmt.Fprintln(con.Out, "\nThese GPUs could have:")
	t := console.NewTable(con.Out, "", "MODE", "STEPS")
	steps, reloads, n := 0, 0, 0
	now := gpus
	for _, to := range append(targets, selftest.Target{Mode: "as before: " + selftest.Describe(before), Profile: before}) {
		if to.SkipReason != "" {
			t.Row("-", to.Mode, "left out: "+to.SkipReason)
			continue
		}
		next, list, err := imagined.Outcome(to.Profile, now)
		if err != nil {
			t.Row("-", to.Mode, "left out: "+err.Error())
			continue
		}
		n++
		steps += len(list)
		note := fmt.Sprint(len(list))
		if list.Reloads() {
			reloads++
			note += ", with a reload of the driver"
		}
		t.Row(fmt.Sprint(n), to.Mode, note)
		now = next
	}
	t.Flush()
	fmt.Fprintf(con.Out, "\ndcm selftest --change takes them through these: %d steps, with %d reloads of the driver.\n", steps, reloads)
	return selftestClients(ctx, h, con, cfg)
}

// selftestClients says who would be restarted, and who is in the way.
func selftestClients(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config) error {
	if !h.Here() {
		return nil
	}
	f, err := forecast(ctx, h, cfg)
	if err != nil {
		return err
	}
	if len(f.Restarted) > 0 {
		fmt.Fprintf(con.Out, "Each time these units would be restarted: %s.\n", strings.Join(f.Restarted, ", "))
	}
	if f.Refused != nil {
		fmt.Fprintln(con.Out, con.Red("It would be refused now: ")+f.Refused.Text)
	}
	return nil
}

func selftestRead(ctx context.Context, h *host.Host, con *console.Console, o selftestOptions) error {
	cfg, _, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	began := time.Now()
	file, err := o.file(began)
	if err != nil {
		return err
	}
	e := newTest(ctx, h, cfg, began)
	views, err := e.found(ctx, o.powerOff)
	if err != nil {
		return err
	}
	e.record(views)
	return e.conclude(ctx, con, file)
}
