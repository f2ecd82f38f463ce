package selftestcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/cli/nodemodel"
	"dcm/internal/app/selftest"
	"dcm/internal/engine/config"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

func SelftestCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "selftest [--read | --change] [--archive FILE] [--power-was-off]",
		Short: "Test how dcm reads and sets these GPUs",
		Long: `Print the plan of a self-test, and change nothing. With --read, read the GPUs from every
available source, and compare the sources with each other and with the known data of
the model. With --change, also apply every mode that the GPUs support, and restore the
first one. Each change restarts the clients, as any change does. The GPUs are restored
even if the self-test is killed.

The result is an archive for the maintainers of dcm. It has no names of hosts, users, units or
processes, and no serial numbers. The exit status is 0 if the test found no error and 2 if
it found one. It is 1 if the test cannot run, and 75 if the GPUs are in use.`,
		Args: console.Args(cobra.NoArgs),
	}
	var o selftestOptions
	f := cmd.Flags()
	f.BoolVar(&o.read, "read", false, "read the GPUs, and change nothing")
	f.BoolVar(&o.change, "change", false, "apply every mode of the GPUs, and restore the first one")
	f.StringVar(&o.archive, "archive", "", "write the archive to `FILE`, - for standard output (default: a new file here)")
	f.BoolVar(&o.powerOff, "power-was-off", false, "declare that the power was off since the last self-test")
	f.BoolVar(&o.within, "within", false, "run as the unit's first command")
	f.BoolVar(&o.back, "back", false, "run as the unit's last command")
	f.StringVar(&o.untilReboot, "until-reboot", "", "with --back: select `PROFILE` again until the next reboot")
	f.StringVar(&o.hold, "hold", "", "keep `NODE` open until standard input is closed")
	for _, name := range []string{"within", "back", "until-reboot", "hold"} {
		cobra.CheckErr(f.MarkHidden(name))
	}
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case o.read && o.change:
			return exitcode.With(exitcode.Usage, errors.New("--read and --change cannot be combined (--change includes --read)"))
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
			return exitcode.With(exitcode.Usage, errors.New("--archive and --power-was-off require --read or --change"))
		}
		return selftestPlan(c.Context(), h, con)
	}
	return cmd
}

// selftestPlan prints the plan of the test.
func selftestPlan(ctx context.Context, h *host.Host, con *console.Console) error {
	cfg, gpus, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	con.Printf("Without an option nothing is tested. dcm support selftest --read reads %d GPUs and changes nothing.\n", len(gpus))
	before, err := selftest.Before(gpus)
	if err != nil {
		return err
	}
	targets := selftest.Targets(gpus, cfg.ReloadDriver)
	con.Println("\ndcm selftest --change would apply:")
	t := con.NewTable("", "MODE", "STEPS")
	steps, reloads, n := 0, 0, 0
	now := gpus
	for _, to := range append(targets, selftest.Target{Mode: "restore: " + selftest.Describe(before), Profile: before}) {
		if to.SkipReason != "" {
			t.Row("-", to.Mode, "skipped: "+to.SkipReason)
			continue
		}
		next, list, err := nodemodel.Outcome(to.Profile, now)
		if err != nil {
			t.Row("-", to.Mode, "skipped: "+err.Error())
			continue
		}
		n++
		steps += len(list)
		note := fmt.Sprint(len(list))
		if list.Reloads() {
			reloads++
			note += ", with a driver reload"
		}
		t.Row(fmt.Sprint(n), to.Mode, note)
		now = next
	}
	t.Flush()
	con.Printf("\nThese are %d steps with %d driver reloads.\n", steps, reloads)
	return selftestClients(ctx, h, con, cfg)
}

// selftestClients prints the units that would be restarted, and the refusal.
func selftestClients(ctx context.Context, h *host.Host, con *console.Console, cfg *config.Config) error {
	if !h.Here() {
		return nil
	}
	f, err := forecast(ctx, h, cfg)
	if err != nil {
		return err
	}
	if len(f.Restarted) > 0 {
		con.Printf("Each change would restart these units: %s.\n", strings.Join(f.Restarted, ", "))
	}
	if f.Refused != nil {
		con.Println(con.Red("It would be refused now: ") + f.Refused.Text)
	}
	return nil
}

func selftestRead(ctx context.Context, h *host.Host, con *console.Console, o selftestOptions) error {
	cfg, gpus, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	began := time.Now()
	file, err := o.file(began)
	if err != nil {
		return err
	}
	show := &view{con: forOutput(con, file)}
	e := newTest(ctx, h, cfg, began, show.show)
	e.out = con.Out
	e.begin(gpus, nil)
	views, err := e.found(ctx, o.powerOff)
	if err != nil {
		return err
	}
	e.remember(views)
	return e.conclude(ctx, file)
}
