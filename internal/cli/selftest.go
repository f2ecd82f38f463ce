package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/config"
	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/partition"
	"dcm/internal/selftest"
)

func selftestCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "selftest [--read] [--archive FILE] [--power-was-off]",
		Short: "Find out whether dcm is right about these GPUs",
		Long: `Say what a self-test would do, and do nothing. With --read, look at the GPUs in every
way that there is, hold the ways against each other and against what is known of such
GPUs, and change nothing.

The result is written to an archive, for the maintainers of dcm. It holds no names of
hosts, users or units, and no serial numbers. The exit status is 0 if nothing is wrong,
2 if something is, 1 if it could not be found out.`,
		Args: args(cobra.NoArgs),
	}
	var o selftestOptions
	f := cmd.Flags()
	f.BoolVar(&o.read, "read", false, "look, and change nothing")
	f.StringVar(&o.archive, "archive", "", "where the archive goes, - for standard output; else a new `FILE` here")
	f.BoolVar(&o.powerOff, "power-was-off", false, "say that the power was off since the last self-test")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case o.read:
			return selftestRead(c.Context(), h, con, o)
		case o.archive != "" || o.powerOff:
			return exit.With(exit.Usage, errors.New("--archive and --power-was-off go with --read"))
		}
		return selftestPlan(c.Context(), h, con)
	}
	return cmd
}

// selftestOptions is how it was asked for.
type selftestOptions struct {
	read, powerOff bool
	archive        string
}

// file is where the archive goes.
func (o selftestOptions) file(now time.Time) (string, error) {
	if o.archive == "-" {
		return o.archive, nil
	}
	if o.archive == "" {
		return filepath.Abs("dcm-selftest-" + now.Format("20060102T150405") + ".tar.gz")
	}
	return filepath.Abs(o.archive)
}

// selftestPlan says what it would do.
func selftestPlan(ctx context.Context, h *host.Host, con *Console) error {
	cfg, gpus, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	fmt.Fprintf(con.out, "Nothing is done without an option. dcm selftest --read looks at %d GPUs, and changes\nnothing.\n", len(gpus))
	before, err := selftest.Before(gpus)
	if err != nil {
		return err
	}
	targets := selftest.Targets(gpus, cfg.ReloadDriver)
	fmt.Fprintln(con.out, "\nThese GPUs could have:")
	t := newTable(con.out, "", "MODE", "STEPS")
	steps, reloads, n := 0, 0, 0
	now := gpus
	for _, to := range append(targets, selftest.Target{Mode: "as before: " + before.String(), Profile: before}) {
		if to.Left != "" {
			t.row("-", to.Mode, "left out: "+to.Left)
			continue
		}
		next, list, err := goTo(to.Profile, now)
		if err != nil {
			t.row("-", to.Mode, "left out: "+err.Error())
			continue
		}
		n++
		steps += len(list)
		note := fmt.Sprint(len(list))
		if list.Reloads() {
			reloads++
			note += ", with a reload of the driver"
		}
		t.row(fmt.Sprint(n), to.Mode, note)
		now = next
	}
	t.flush()
	fmt.Fprintf(con.out, "\nThat is %d steps, with %d reloads of the driver.\n", steps, reloads)
	return nil
}

// goTo is what the GPUs are once they have the profile, and the steps to it.
func goTo(p partition.Profile, gpus []partition.GPU) ([]partition.GPU, partition.Steps, error) {
	layout, err := p.Layout(gpus)
	if err != nil {
		return nil, nil, err
	}
	steps, err := partition.Plan(layout, gpus)
	return partition.Forecast(gpus, steps), steps, err
}

func partitionable(ctx context.Context, h *host.Host) (*config.Config, []partition.GPU, error) {
	cfg, err := h.Config()
	if err != nil {
		return nil, nil, err
	}
	gpus, err := gpusOf(ctx, h, cfg)
	if err == nil && len(gpus) == 0 {
		err = errors.New("there are no GPUs here that dcm could partition; dcm gpus tells why")
	}
	return cfg, gpus, err
}

func selftestRead(ctx context.Context, h *host.Host, con *Console, o selftestOptions) error {
	cfg, _, err := partitionable(ctx, h)
	if err != nil {
		return err
	}
	began := time.Now()
	file, err := o.file(began)
	if err != nil {
		return err
	}
	e := newExam(ctx, h, cfg, began)
	views, err := e.found(ctx, o.powerOff)
	if err != nil {
		return err
	}
	e.record(views)
	return e.conclude(ctx, con, file)
}

// conclude tells what was found, packs it, and is an error if something is wrong.
func (e *exam) conclude(ctx context.Context, con *Console, file string) error {
	e.result.Ended = time.Now()
	claims, err := selftest.Claims()
	if err != nil {
		return err
	}
	e.result.Table = selftest.Table(claims, e.facts)
	told := con.out
	if file == "-" {
		told = con.err
	}
	t := newTable(told, "", "AT", "WHAT", "")
	for _, c := range e.result.Checks {
		t.row(markOf(con, c.Verdict), orDash(c.At), c.What, c.Text)
	}
	t.flush()
	differ := slices.DeleteFunc(slices.Clone(e.result.Table), func(r selftest.Row) bool { return !r.Differs() })
	if len(differ) > 0 {
		fmt.Fprintf(told, "\nOf %d facts, %d are not as the simulator has them:\n%s", len(e.result.Table), len(differ), selftest.Text(differ))
	}
	fmt.Fprintf(told, "\n%s.\n", selftest.Count(e.result.Checks))
	if err := e.pack(ctx, con, file); err != nil {
		return err
	}
	if selftest.Red(e.result.Checks) {
		return exit.With(exit.Differs, nil)
	}
	return nil
}

func markOf(con *Console, v selftest.Verdict) string {
	switch v {
	case selftest.Right:
		return con.green("✓")
	case selftest.Wrong:
		return con.red("×")
	}
	return strings.TrimSpace(con.yellow("…"))
}
