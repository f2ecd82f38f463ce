package leases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/leaseservice"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
	"dcm/internal/leases/accounting"
	"dcm/internal/linux/journal"
	"dcm/internal/linux/systemd"
	"dcm/internal/text"
)

// UsageCmd is dcm usage.
func UsageCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "usage [--since TIME] [--by user|unit|gpu] [--json]",
		Short: "Show the partition-hours of leases and reserved services",
		Long: `Show for how many partition-hours users, units or GPUs have had partitions, in leases and
reserved services. The numbers come from systemd's entries in the journal, so they are correct
even if the daemon was down. The output shows since when the journal is complete.
The mean utilisation, energy and peak memory are those of the runs for which they are known.

To read the journal you must be root or a member of the group systemd-journal or adm.`,
		Args: console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	since := cmd.Flags().String("since", "", "count from this `TIME`, such as yesterday, 12h or 2026-11-01")
	by := cmd.Flags().String("by", "user", "sum by this `KEY`: user, unit or gpu")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("by", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return groupings(), cobra.ShellCompDirectiveNoFileComp
	}))
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		from, err := console.ParseSince(*since, time.Now())
		if err == nil && !accounting.Named(*by) {
			err = fmt.Errorf("--by: unknown value (found %q, want %s)", *by, strings.Join(accounting.Groupings(), ", "))
		}
		if err != nil {
			return exitcode.With(exitcode.Usage, err)
		}
		u, err := usage(c.Context(), h, from, *by)
		if err != nil {
			return err
		}
		return showUsage(con, u, *asJSON)
	}
	return cmd
}

// groupings completes --by.
func groupings() []cobra.Completion {
	var out []cobra.Completion
	for _, key := range accounting.Groupings() {
		out = append(out, cobra.CompletionWithDesc(key, "one line for each "+strings.Replace(key, "gpu", "GPU", 1)))
	}
	return out
}

// usageAnswer is the JSON output. Times are those of the interval that is counted.
type usageAnswer struct {
	Since    time.Time          `json:"since"`
	Until    time.Time          `json:"until"`
	Complete time.Time          `json:"complete_since"` // the journal has all runs since then
	By       string             `json:"by"`
	Totals   []accounting.Total `json:"totals"`
	Unsure   int                `json:"uncounted_runs"` // runs without an entry of their end
}

func usage(ctx context.Context, h *host.Host, since time.Time, by string) (usageAnswer, error) {
	if !h.Here() {
		return usageAnswer{}, errors.New("not for another root directory")
	}
	ledger := accounting.NewLedger()
	matches, fields := accounting.Matches()
	err := journal.Read(ctx, fields, matches, ledger.Add)
	if err == nil && ledger.Since.IsZero() {
		err = errors.New("the journal shows no entries of systemd")
	}
	if err != nil && os.Geteuid() != 0 {
		err = fmt.Errorf("%w\nhint: run it as root, or join the group systemd-journal", err)
	}
	if err != nil {
		return usageAnswer{}, err
	}
	now, done, err := present(ctx, h)
	if err != nil {
		return usageAnswer{}, err
	}
	defer done()
	runs := ledger.Runs(now)
	if since.IsZero() {
		since = ledger.Since
	}
	totals := accounting.Totals(runs, by, since, now.Time, host.UserName)
	return usageAnswer{Since: since, Until: now.Time, Complete: ledger.Since, By: by, Totals: totals, Unsure: ledger.Unsure}, nil
}

// present reads what the journal does not have: the active units, and the last entries of former boots.
func present(ctx context.Context, h *host.Host) (now accounting.Now, done func(), err error) {
	conn, err := h.Dial(ctx)
	if err != nil {
		return now, nil, err
	}
	all, err := leaseservice.List(ctx, h)
	if err != nil {
		conn.Close()
		return now, nil, err
	}
	now = accounting.Now{Time: time.Now(), Boot: strings.ReplaceAll(h.BootID(), "-", "")}
	for _, l := range all {
		now.Leases = append(now.Leases, accounting.Run{Unit: l.Lease, Partitions: l.Partitions, Share: l.Share, Began: l.Since})
	}
	now.Active = func(unit string) bool {
		units, err := conn.Units.List(ctx, []string{unit}, systemd.States)
		return err == nil && len(units) == 1 && units[0].Active != "inactive" && units[0].Active != "failed"
	}
	now.Last = func(boot string) (last time.Time, ok bool) {
		err := journal.Read(ctx, []string{"_BOOT_ID"}, []string{"--boot=" + boot, "--lines=1"}, func(e journal.Entry) { last, ok = e.Time, true })
		return last, ok && err == nil
	}
	return now, func() { conn.Close() }, nil
}

func showUsage(con *console.Console, u usageAnswer, asJSON bool) error {
	if asJSON {
		return con.Answer(u)
	}
	date := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	con.Printf("From %s to %s. The journal is complete since %s.\n", date(u.Since), date(u.Until), date(u.Complete))
	if u.Since.Before(u.Complete) {
		con.Note("the journal has no entries before " + date(u.Complete) + "; earlier usage is not counted")
	}
	if u.Unsure > 0 {
		con.Note(fmt.Sprintf("runs that ended without an entry are not counted: %d", u.Unsure))
	}
	t := con.NewTable(strings.ToUpper(u.By), "PARTITION-HOURS", "RUNS", "BUSY", "ENERGY", "PEAK MEMORY").Optional("PEAK MEMORY", "ENERGY", "BUSY")
	if len(u.Totals) == 0 {
		con.Println("No use of partitions is recorded.")
		return nil
	}
	for _, total := range u.Totals {
		name := total.Name
		if name == "" {
			name = "(services)"
		}
		busy, energy, memory := used(total)
		t.Row(name, fmt.Sprintf("%.2f", total.Seconds/3600), fmt.Sprint(total.Runs), busy, energy, memory)
	}
	t.Flush()
	return nil
}

// used returns the cells of values that few runs have; "-" if none has it.
func used(t accounting.Total) (busy, energy, memory string) {
	busy, energy, memory = "-", "-", "-"
	if t.Busy != nil {
		busy = fmt.Sprintf("%.0f %%", *t.Busy)
	}
	if t.Energy != nil {
		energy = fmt.Sprintf("%.3f kWh", *t.Energy/3.6e6)
	}
	if t.PeakMemory != nil {
		memory = text.GiB(*t.PeakMemory)
	}
	return busy, energy, memory
}
