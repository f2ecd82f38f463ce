package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/bundle"
	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/metrics"
)

func ReportCmd(h *host.Host, con *console.Console, run bundle.Runner) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report [--json]",
		Short: "Show the last run step by step",
		Long: `Show the last run of dcm-apply.service step by step, from its report. 'dcm history' lists
the runs before it.`,
		Args: console.Args(cobra.MaximumNArgs(1)),
	}
	asJSON := con.JsonFlag(cmd)
	listing := cmd.Flags().Bool("list", false, "show the last runs, one per line")
	var bundleFile archive
	packing := cmd.Flags().VarPF(&bundleFile, "bundle", "", "pack an archive for support")
	packing.NoOptDefVal = "true"
	for _, moved := range []string{"list", "bundle"} { // "dcm history" and "dcm support bundle" have them
		cobra.CheckErr(cmd.Flags().MarkHidden(moved))
	}
	cmd.RunE = func(c *cobra.Command, given []string) error {
		switch {
		case packing.Changed && bundleFile != "" && len(given) > 0:
			return exitcode.With(exitcode.Usage, fmt.Errorf("--bundle: too many files (found %q and %q, want one)", bundleFile, given[0]))
		case packing.Changed:
			return bundle.Write(c.Context(), h, con, run, string(bundleFile)+strings.Join(given, ""), time.Now())
		case *listing && len(given) == 0:
			return listRuns(h, con, *asJSON)
		case len(given) > 0:
			return exitcode.With(exitcode.Usage, fmt.Errorf("%s takes no argument (found %q)\nhint: 'dcm support bundle' writes an archive", c.CommandPath(), given[0]))
		}
		return lastReport(c.Context(), h, con, *asJSON)
	}
	return cmd
}

// BundleCmd is dcm support bundle.
func BundleCmd(h *host.Host, con *console.Console, run bundle.Runner) *cobra.Command {
	return &cobra.Command{
		Use:   "bundle [FILE]",
		Short: "Pack an archive for support",
		Long: `Write one archive for support: configuration, reports, states of units, inventory, journal of dcm,
and the kernel's messages about the GPUs. The archive goes to FILE ("-" for standard output) or to a
new file in the current directory. It contains no secrets; its CONTENTS.txt lists its files. Only root
gets all of it.`,
		Example: "  sudo dcm support bundle",
		Args:    console.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			return bundle.Write(c.Context(), h, con, run, strings.Join(given, ""), time.Now())
		},
	}
}

// archive is the value of --bundle, which may be missing: --bundle=FILE and --bundle FILE are
// the same.
type archive string

func (a *archive) String() string { return string(*a) }
func (a *archive) Type() string   { return "bool" } // help shows a flag of this type without a value
func (a *archive) Set(file string) error {
	if file != "true" {
		*a = archive(file)
	}
	return nil
}

func lastReport(ctx context.Context, h *host.Host, con *console.Console, asJSON bool) error {
	a := client.Account(ctx, h)
	if err := client.WhyHidden(a, "last_run"); err != nil {
		return err
	}
	if asJSON {
		return con.Answer(a.LastRun)
	}
	if a.LastRun == nil {
		con.Println("There was no run since the boot.")
		return nil
	}
	printRun(con, a.LastRun, a.Restart)
	return nil
}

func printRun(con *console.Console, run *runstate.Run, restart runstate.Restart) {
	con.Printf("Run %s: %s\n", run.ID, con.Bold(string(run.Result)))
	line := func(name, value string) {
		if value != "" {
			con.Labelled(fmt.Sprintf("  %-10s ", name), value)
		}
	}
	profile := run.Profile
	if run.Source != "" {
		profile += " (" + run.Source + ")"
	}
	line("Profile", strings.TrimSpace(profile))
	line("Asked for", run.Asked.String())
	if run.Config != "" {
		line("By", "the last good configuration; the one on disk has an error: "+strings.ReplaceAll(run.Config, "\n", "\n             "))
	}
	line("Began", run.Started.Format(time.DateTime))
	if !run.Finished.IsZero() {
		line("Took", run.Finished.Sub(run.Started).Round(time.Millisecond).String())
	}
	line("Phases", phases(run, restart))
	line("This boot", totals(run.Totals))
	if run.Error != nil {
		line("Error", strings.ReplaceAll(run.Error.Text, "\n", "\n             "))
		line("Hint", run.Error.Hint)
	}
	for _, w := range run.Warnings {
		line("Warning", w)
	}
	for _, p := range run.Holders {
		line("In use by", p.String())
	}
	printSteps(con, run.Steps)
	printModes(con, run.GPUs)
}

// phases returns the measured durations of the run in their order.
func phases(run *runstate.Run, restart runstate.Restart) string {
	var out []string
	took := metrics.Phases(restart, *run)
	for _, name := range []string{"stop", "reload", "switch", "start"} {
		if d, ok := took[name]; ok {
			out = append(out, fmt.Sprintf("%s %s", name, d.Round(time.Millisecond)))
		}
	}
	return strings.Join(out, ", ")
}

func totals(t runstate.Totals) string {
	var out []string
	for _, r := range slices.Sorted(maps.Keys(t.Runs)) {
		out = append(out, fmt.Sprintf("%d %s", t.Runs[r], r))
	}
	return strings.Join(out, ", ")
}

func printSteps(con *console.Console, steps []runstate.Step) {
	if len(steps) == 0 {
		return
	}
	con.Println("")
	t := con.NewTable("TOOK", "RESULT", "STEP")
	for _, s := range steps {
		what, took, result := s.Step.String(), "-", "not begun"
		if s.Undo {
			what = "go back: " + what
		}
		switch {
		case s.Error != "":
			result, what = "failed", what+": "+s.Error
		case !s.Finished.IsZero():
			result = "done"
		case !s.Started.IsZero():
			result = "not finished"
		}
		if !s.Finished.IsZero() {
			took = s.Finished.Sub(s.Started).Round(time.Millisecond).String()
		}
		t.Row(took, result, what)
	}
	t.Flush()
}

func printModes(con *console.Console, gpus []runstate.GPU) {
	if len(gpus) == 0 {
		return
	}
	con.Println("")
	t := con.NewTable("ADDRESS", "MODEL", "BEFORE", "WANTED", "NOW").Optional("MODEL")
	for _, g := range gpus {
		t.Row(string(g.Address), g.Model, g.Before.String(), g.Want.String(), g.Now.String())
	}
	t.Flush()
}
