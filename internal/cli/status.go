package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/exit"
	"dcm/internal/host"
	"dcm/internal/journal"
	"dcm/internal/report"
	"dcm/internal/watch"
)

func statusCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [--json] [--watch]",
		Short: "Show the selected profile, the GPUs, the clients and what is wrong",
		Long: `Show the profile selected and applied, each GPU's mode, the client units, the
last run, and what is wrong. The exit status is 0 if the GPUs are as selected,
and 2 if they are not.`,
		Args: args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	follow := cmd.Flags().Bool("watch", false, "show it again whenever something changes")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if *follow {
			return watchStatus(c.Context(), h, con, *asJSON)
		}
		return showStatus(c.Context(), h, con, *asJSON)
	}
	return cmd
}

func showStatus(ctx context.Context, h *host.Host, con *Console, asJSON bool) error {
	o := look(ctx, h)
	if asJSON {
		if err := con.answer(o); err != nil {
			return err
		}
	} else {
		o.print(con, con.out, time.Now())
	}
	if !o.Applied {
		return exit.With(exit.Differs, nil)
	}
	return nil
}

// watchStatus shows the status now and at every change until it is interrupted.
func watchStatus(ctx context.Context, h *host.Host, con *Console, asJSON bool) error {
	changed, err := watch.Files(ctx, []string{h.Runtime(), h.Path("etc/dcm")}, 100*time.Millisecond, journal.Log(con.err, "dcm"))
	if err != nil {
		return err
	}
	for {
		var b bytes.Buffer
		if o := look(ctx, h); asJSON {
			if err := con.answer(o); err != nil {
				return err
			}
		} else {
			o.print(con, &b, time.Now())
		}
		if con.terminal {
			fmt.Fprint(con.out, "\x1b[H\x1b[2J")
		}
		if _, err := b.WriteTo(con.out); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (o *overview) print(con *Console, w io.Writer, now time.Time) {
	fmt.Fprintln(w, o.headline(con))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(tab, "  %s\t%s\n", name, value) }
	if o.Profile != "" {
		row("Selected", o.selected())
	}
	for _, u := range o.Units {
		row(strings.TrimSuffix(u.Unit, ".service"), unitState(u.Active, u.Sub, u.Result))
	}
	if o.Run != nil {
		row("Last run", lastRun(o.Run, o.killed, now))
	}
	if o.state != nil && !o.state.Retry.IsZero() && o.state.Phase == report.Waiting {
		row("Next try", "at "+o.state.Retry.Format(time.TimeOnly))
	}
	tab.Flush()
	o.printGPUs(w)
	o.printClients(w)
	o.printProblems(con, w)
}

func (o *overview) headline(con *Console) string {
	switch {
	case o.Phase == report.Applying:
		return con.yellow("●") + " " + con.bold("Profile "+o.Profile+" is being put on the GPUs")
	case o.Profile == "" && o.Applied:
		return "○ " + con.bold("No profile is selected; the GPUs are left alone")
	case o.Applied && len(o.Problems) == 0:
		return con.green("●") + " " + con.bold("Profile "+o.Profile+" is on the GPUs")
	case o.Applied:
		return con.yellow("●") + " " + con.bold("Profile "+o.Profile+" is on the GPUs, but there are problems")
	case o.Profile == "":
		return con.red("×") + " " + con.bold("The configuration cannot be used")
	}
	return con.red("×") + " " + con.bold("Profile "+o.Profile+" is not on the GPUs")
}

func (o *overview) selected() string {
	s := o.Profile
	if o.Source != "" {
		s += " (" + o.Source + ")"
	}
	if o.Runtime {
		s += ", until reboot"
	}
	return s
}

func lastRun(r *report.Run, killed bool, now time.Time) string {
	s := string(r.Result)
	if killed {
		s = "killed while it put"
	}
	if r.Profile != "" {
		s += " " + r.Profile
	}
	if killed {
		return s + " on the GPUs, begun at " + r.Started.Format(time.TimeOnly)
	}
	if r.Finished.IsZero() {
		return s + ", since " + r.Started.Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s in %s, %s ago", s, r.Finished.Sub(r.Started).Round(time.Millisecond), now.Sub(r.Finished).Round(time.Second))
}

func (o *overview) printGPUs(w io.Writer) {
	if len(o.GPUs) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable(w, "GPU", "ADDRESS", "MODEL", "MODE", "PARTITIONS", "SELECTED")
	for _, g := range o.GPUs {
		if g.Index < 0 {
			t.row("-", string(g.Address), g.Model, "-", "-", "not touched: "+g.Why)
			continue
		}
		t.row(fmt.Sprint(g.Index), string(g.Address), g.Model, g.Mode.String(), fmt.Sprint(g.Partitions), verdict(g))
	}
	t.flush()
}

func verdict(g host.View) string {
	switch {
	case g.Skipped:
		return "skipped"
	case g.Want.Compute == "":
		return "-"
	case g.Want == g.Mode:
		return "yes"
	}
	return "no, " + g.Want.String()
}

func (o *overview) printClients(w io.Writer) {
	if len(o.Clients) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable(w, "CLIENT", "STATE", "LAST RESTART")
	for _, c := range o.Clients {
		state := unitState(c.Now, c.Sub, c.Result)
		if c.Now == "not-found" {
			state = "not installed"
		}
		t.row(c.Unit, state, lastRestart(c))
	}
	t.flush()
}

func (o *overview) printProblems(con *Console, w io.Writer) {
	if len(o.Problems)+len(o.Warnings) > 0 {
		fmt.Fprintln(w)
	}
	for _, p := range o.Problems {
		for line := range strings.Lines(p.Text) {
			fmt.Fprintln(w, con.red("problem: ")+strings.TrimRight(line, "\n"))
		}
		if p.Cure != "" {
			fmt.Fprintln(w, "   cure: "+p.Cure)
		}
	}
	for _, s := range o.Warnings {
		fmt.Fprintln(w, con.yellow("warning: ")+s)
	}
}

// lastRestart says what the last restart did to a client.
func lastRestart(c report.Client) string {
	switch {
	case !c.Back:
		return "was " + c.Before + ", not back"
	case c.Before == "active":
		return "restarted"
	}
	return "-"
}

func unitState(active, sub, result string) string {
	s := active
	if sub != "" {
		s += " (" + sub + ")"
	}
	if result != "" && result != "success" {
		s += ", result " + result
	}
	return s
}
