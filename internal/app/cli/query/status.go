package query

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/exitcode"
	"dcm/internal/frontends/status"
	"dcm/internal/linux/journal"
	"dcm/internal/linux/watch"
)

func StatusCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [--json] [--watch]",
		Short: "Show the selected profile, the GPUs, the clients and all problems",
		Long: `Show the selected profile, the last run, the mode of each GPU, the clients, and every
problem with a hint. The exit status is that of a monitoring plugin. It is 0 if all is
in order, 1 for a warning, 2 for an alarm, 3 if the state is unknown. See
dcm-account(5).`,
		Args: console.Args(cobra.NoArgs),
	}
	asJSON := console.JsonFlag(cmd)
	follow := cmd.Flags().Bool("watch", false, "show the status again after every change")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if *follow {
			return watchStatus(c.Context(), h, con, *asJSON)
		}
		return showStatus(c.Context(), h, con, *asJSON)
	}
	return cmd
}

func showStatus(ctx context.Context, h *host.Host, con *console.Console, asJSON bool) error {
	a := client.Account(ctx, h)
	if err := PrintStatus(con, con.Out, a, asJSON); err != nil {
		return err
	}
	if a.Health.Code != status.CodeOK {
		return exitcode.With(a.Health.Code, nil)
	}
	return nil
}

func PrintStatus(con *console.Console, w io.Writer, a status.Account, asJSON bool) error {
	if asJSON {
		return con.Answer(a)
	}
	_, err := w.Write(StatusText(con, a, time.Now()))
	return err
}

// watchStatus prints the status now and after every change, until interrupted.
func watchStatus(ctx context.Context, h *host.Host, con *console.Console, asJSON bool) error {
	changed, err := watch.Files(ctx, []string{h.Runtime(), h.Path("etc/dcm")}, 100*time.Millisecond, journal.Log(con.Err, "dcm"))
	if err != nil {
		return err
	}
	for {
		a := client.Account(ctx, h)
		if con.Terminal {
			fmt.Fprint(con.Out, "\x1b[H\x1b[2J")
		}
		if err := PrintStatus(con, con.Out, a, asJSON); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// StatusText returns a status as text.
func StatusText(con *console.Console, a status.Account, now time.Time) []byte {
	w := new(bytes.Buffer)
	fmt.Fprintln(w, headline(con, a.Health))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(tab, "  %s\t%s\n", name, value) }
	switch {
	case a.Profile.Broken != "" && a.Profile.Effective != "":
		row("Effective", selected(a.Profile))
	case a.Profile.Effective != "":
		row("Selected", selected(a.Profile))
	}
	for _, u := range a.Units {
		row(strings.TrimSuffix(u.Unit, ".service"), status.Words(u.Active, u.Sub, u.Result))
	}
	if a.LastRun != nil {
		row("Last run", lastRun(a.LastRun, now))
	}
	if retry := a.Daemon.Retry; !retry.IsZero() && (a.Daemon.Phase == runstate.Waiting || a.Daemon.Phase == runstate.InSync) {
		row("Next try", "at "+retry.Local().Format(time.TimeOnly))
	}
	if n := len(a.Queue); n > 0 {
		row("Queue", fmt.Sprintf("%s for a lease; see 'dcm queue'", console.Plural(n, "request waits", "requests wait")))
	}
	if len(a.GPUs) == 0 && client.WhyHidden(a, "gpus") == nil {
		row("GPUs", "none found")
	}
	tab.Flush()
	printGPUs(con, w, a.GPUs)
	printClients(con, w, a.Clients)
	printProblems(con, w, a)
	return w.Bytes()
}

func headline(con *console.Console, h status.Health) string {
	switch {
	case h.State == status.Idle:
		return "○ " + con.Bold(h.Summary)
	case h.Code == status.CodeOK:
		return con.Green("●") + " " + con.Bold(h.Summary)
	case h.Code == status.CodeCritical:
		return con.Red("×") + " " + con.Bold(h.Summary)
	}
	return con.Yellow("●") + " " + con.Bold(h.Summary)
}

func selected(p status.Profile) string {
	s := p.Effective
	if p.Source != "" {
		s += " (" + p.Source + ")"
	}
	if p.UntilReboot {
		s += ", until reboot"
		if p.Persistent != "" && p.Persistent != p.Effective {
			s += " instead of " + p.Persistent
		}
	}
	return s
}

func lastRun(r *runstate.Run, now time.Time) string {
	s := strings.TrimSpace(string(r.Result) + " " + r.Profile)
	switch r.Result {
	case runstate.Killed:
		return s + ", started at " + r.Started.Local().Format(time.TimeOnly)
	case runstate.Unchanged:
		s = r.Profile + " needed no change"
	case runstate.NoProfile:
		s = "no profile was selected"
	}
	if r.Finished.IsZero() {
		return s + ", since " + r.Started.Local().Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s in %s, %s ago", s, r.Finished.Sub(r.Started).Round(time.Millisecond), now.Sub(r.Finished).Round(time.Second))
}

func printGPUs(con *console.Console, w io.Writer, all []status.GPU) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := con.To(w).NewTable("GPU", "ADDRESS", "MODEL", "MODE", "PARTITIONS", "SELECTED")
	for _, g := range all {
		if !g.Managed() {
			t.Row("-", g.Address, g.Model, "-", "-", "not managed: "+g.Why)
			continue
		}
		t.Row(fmt.Sprint(g.Index), g.Address, g.Model, g.Mode.String(), fmt.Sprint(g.Partitions), wanted(g))
	}
	t.Flush()
}

func wanted(g status.GPU) string {
	s := "no, " + g.Want.String()
	switch {
	case g.Skipped:
		s = "skipped"
	case g.Want.String() == "":
		s = "-"
	case g.AsWanted():
		s = "yes"
	}
	if g.Left {
		s += "; in use"
	}
	if g.Pending != "" {
		s += "; " + g.Pending + " pending"
	}
	return s
}

func printClients(con *console.Console, w io.Writer, all []status.Client) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := con.To(w).NewTable("CLIENT", "STATE", "LAST RESTART")
	for _, c := range all {
		state := status.Words(c.Active, c.Sub, c.Result)
		switch {
		case c.Load == "not-found" && !c.Runs():
			state = "not installed"
		case c.Load == "not-found":
			state += ", without a unit file"
		case c.Load != "loaded" && c.Load != "":
			state += ", " + c.Load
		}
		t.Row(c.Unit, state, lastRestart(c))
	}
	t.Flush()
}

func printProblems(con *console.Console, w io.Writer, a status.Account) {
	if len(a.Problems)+len(a.Warnings)+len(a.Hidden) > 0 {
		fmt.Fprintln(w)
	}
	for _, p := range a.Problems {
		for line := range strings.Lines(p.Text) {
			fmt.Fprintln(w, con.Red("problem: ")+strings.TrimRight(line, "\n"))
		}
		if p.Hint != "" {
			fmt.Fprintln(w, "   hint: "+p.Hint)
		}
	}
	for _, s := range a.Warnings {
		fmt.Fprintln(w, con.Yellow("warning: ")+s)
	}
	for _, p := range a.Hidden {
		fmt.Fprintf(w, "not visible from here: %s: %s\n", strings.ReplaceAll(p.Part, "_", " "), p.Why)
	}
}

// lastRestart describes the result of the last restart for a client.
func lastRestart(c status.Client) string {
	switch {
	case !c.Back:
		return "was " + c.Before + ", not back"
	case c.Before == "active":
		return "restarted"
	}
	return "-"
}
