package query

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/frontends/status"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/linux/unitname"
	"dcm/internal/text"
)

// statusView writes a status as text.
type statusView struct {
	*console.Console
	a    status.Account
	now  time.Time
	long bool // a line for each GPU, client and unit
}

// StatusText returns a status as text.
func StatusText(con *console.Console, a status.Account, now time.Time, long bool) []byte {
	w := new(bytes.Buffer)
	v := statusView{con.To(w), a, now, long}
	v.Println(v.headline())
	v.selection()
	v.units()
	if a.LastRun != nil {
		v.fact(" ", "Last run", lastRun(a.LastRun, now))
	}
	if retry := a.Daemon.Retry; !retry.IsZero() && (a.Daemon.Phase == runstate.Waiting || a.Daemon.Phase == runstate.InSync) {
		v.fact(" ", "Next try", "at "+retry.Local().Format(time.TimeOnly))
	}
	if !long {
		v.services()
	}
	if n := len(a.Queue); n > 0 {
		v.fact(" ", "Queue", fmt.Sprintf("%s for a lease; see 'dcm lease queue'", text.Plural(n, "request waits", "requests wait")))
	}
	switch {
	case a.Unread():
		v.fact(" ", "GPUs", "not read yet: dcm.service is starting")
	case len(a.GPUs)+len(a.Expected.Lost) == 0 && client.WhyHidden(a, "gpus") == nil:
		v.fact(" ", "GPUs", "none found; 'dcm gpus' lists all display and accelerator devices")
	}
	v.gpus()
	v.clients()
	v.pending()
	v.problems()
	return w.Bytes()
}

// fact prints a line of the status with its mark, which may be a space.
func (v statusView) fact(mark, name, value string) {
	v.Labelled("  "+mark+" "+text.Pad(name, 12)+" ", value)
}

func (v statusView) headline() string {
	h := v.a.Health
	switch {
	case h.State == status.Idle:
		return "○ " + v.Bold(h.Summary)
	case h.Code == status.CodeOK:
		return v.Green("●") + " " + v.Bold(h.Summary)
	case h.Code == status.CodeCritical:
		return v.Red("×") + " " + v.Bold(h.Summary)
	}
	return v.Yellow("●") + " " + v.Bold(h.Summary)
}

// selection prints two facts: which profile is selected, and whether it is on the GPUs.
func (v statusView) selection() {
	p := v.a.Profile
	v.unconfirmed()
	if p.Effective == "" {
		return
	}
	if p.Broken != "" {
		v.fact(v.Yellow("!"), "Effective", selected(p))
	} else {
		v.fact(v.Green("✓"), "Selected", selected(p))
	}
	all := max(v.a.Managed(), v.a.Expected.GPUs)
	if len(v.a.GPUs) == 0 || all == 0 {
		return // unknown, or none that could have it
	}
	with, skipped := 0, 0
	wanted := v.wanted()
	for _, g := range v.a.GPUs {
		if g.Managed() && g.Skipped {
			skipped++
			continue
		}
		if want, changing := wanted[g.Address]; g.Managed() && (changing && want.Equal(g.Mode) || !changing && g.AsWanted()) {
			with++
		}
	}
	all -= skipped
	mark := v.Red("×")
	switch {
	case v.a.Running():
		mark = v.Yellow("…")
	case with == all && p.Applied != "":
		mark = v.Green("✓")
	}
	s := fmt.Sprintf("%d of %d", with, all)
	if skipped > 0 {
		s += fmt.Sprintf(", and %d skipped", skipped)
	}
	v.fact(mark, "On the GPUs", s)
}

// unconfirmed prints the time that is left to confirm the selection.
func (v statusView) unconfirmed() {
	u := v.a.Profile.Unconfirmed
	if u == nil {
		return
	}
	former := config.OrNone(u.Former)
	v.fact(v.Yellow("!"), "Confirm", fmt.Sprintf("within %s (until %s), or dcm selects %s again; see 'dcm confirm'",
		text.Duration(u.Deadline.Sub(v.now)), u.Deadline.Local().Format(time.TimeOnly), former))
}

// wanted returns the shapes that a run sets, by address. While it runs, those of the status are of the
// profile before.
func (v statusView) wanted() map[string]status.Shape {
	if !v.a.Running() || v.a.LastRun == nil || !v.a.LastRun.Finished.IsZero() {
		return nil
	}
	out := make(map[string]status.Shape)
	for _, g := range v.a.LastRun.GPUs {
		out[string(g.Address)] = gather.Shape(g.Want)
	}
	return out
}

// units prints dcm's own units; without --long only those that do not run as they should.
func (v statusView) units() {
	for _, u := range v.a.Units {
		idle := u.Unit != unitname.Daemon && u.Active == "inactive" // a run that never ended is a problem, if it matters
		if v.long || u.Active != "active" && !idle {
			v.fact(" ", strings.TrimSuffix(u.Unit, ".service"), status.Words(u.Active, u.Sub, u.Result))
		}
	}
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
	s = fmt.Sprintf("%s in %s, %s ago", s, text.Duration(r.Finished.Sub(r.Started)), text.Duration(now.Sub(r.Finished)))
	if r.Asked.Who != nil {
		s += ", by " + r.Asked.Who.String()
	}
	return s
}

// services prints how many clients run. PID 1 does not record why a unit was stopped. So a client that dcm
// did not stop is no fault, also if it was stopped together with dcm-apply.service and only that was started.
func (v statusView) services() {
	if len(v.a.Clients) == 0 {
		return
	}
	var running, stopping, down, stopped, absent []string
	faults := v.a.DownClients()
	for _, c := range v.a.Clients {
		name := strings.TrimSuffix(c.Unit, ".service")
		_, fault := faults[c.Unit]
		switch {
		case c.Active == "deactivating":
			stopping = append(stopping, name)
		case c.Runs():
			running = append(running, name)
		case c.Load != "loaded" && c.Load != "":
			absent = append(absent, name)
		case fault:
			down = append(down, name)
		default:
			stopped = append(stopped, name)
		}
	}
	s := fmt.Sprintf("%d of %d running", len(running), len(v.a.Clients))
	if len(running) > 0 {
		s += ": " + text.Few(running)
	}
	if len(stopping) > 0 { // a change waits for them, without a limit if TimeoutStopSec=infinity
		s += "; stopping: " + text.Few(stopping) + " (systemctl kill ends it)"
	}
	if v.a.Running() {
		down, stopped = nil, append(down, stopped...)
	}
	if len(down) > 0 {
		s += "; down: " + text.Few(down)
	}
	switch {
	case len(stopped) > 0 && v.a.Running():
		s += "; stopped for the change: " + text.Few(stopped)
	case len(stopped) > 0:
		s += "; stopped: " + text.Few(stopped) + " (start with systemctl)"
	}
	if len(absent) > 0 {
		s += "; not installed or masked: " + text.Few(absent)
	}
	v.fact(" ", "Services", s)
}

// clients prints a line for each client; without --long only for those that are not in order.
func (v statusView) clients() {
	down := v.a.DownClients()
	t := v.NewTable("CLIENT", "STATE", "LAST RESTART")
	n := 0
	for _, c := range v.a.Clients {
		_, bad := down[c.Unit]
		odd := (bad || !c.Back) && !v.a.Running() || c.Load != "loaded" && c.Load != ""
		if v.long || odd {
			t.Row(c.Unit, clientState(c), lastRestart(c))
			n++
		}
	}
	if n > 0 {
		v.Println("")
		t.Flush()
	}
}

// pending prints a line for each unit that the daemon has to start. Those that the present run has stopped are among
// the services.
func (v statusView) pending() {
	t := v.NewTable("TO START", "SINCE", "REASON", "NEXT TRY")
	n := 0
	for _, p := range v.a.Daemon.Pending {
		if p.Reason == runstate.StoppedByRun && v.a.Running() {
			continue
		}
		since := "-"
		if !p.Since.IsZero() {
			since = p.Since.Local().Format(time.TimeOnly)
		}
		t.Row(p.Unit, since, p.Why(), v.nextTry(p))
		n++
	}
	if n > 0 {
		v.Println("")
		t.Flush()
	}
}

// nextTry describes when the daemon tries to start a unit.
func (v statusView) nextTry(p status.PendingStart) string {
	switch {
	case p.WaitsFor == p.Unit:
		return "systemd starts or stops it now"
	case p.WaitsFor != "":
		return "after systemd has started " + p.WaitsFor
	case v.a.Running():
		return "after the run"
	case !p.Next.IsZero():
		return "at " + p.Next.Local().Format(time.TimeOnly)
	}
	return "when the profile is on the GPUs"
}

func clientState(c status.Client) string {
	state := status.Words(c.Active, c.Sub, c.Result)
	switch {
	case c.Load == "not-found" && !c.Runs():
		state = "not installed"
	case c.Load == "not-found":
		state += ", without a unit file"
	case c.Load != "loaded" && c.Load != "":
		state += ", " + c.Load
	}
	return state
}

// lastRestart describes the result of the last restart for a client.
func lastRestart(c status.Client) string {
	switch {
	case !c.Back:
		return "was " + c.Before + ", not back"
	case c.Ended:
		return "restarted, ended later"
	case c.Before == "active":
		return "restarted"
	}
	return "-"
}

func (v statusView) problems() {
	a := v.a
	if len(a.Problems)+len(a.Warnings)+len(a.Hidden) > 0 {
		v.Println("")
	}
	for _, p := range a.Problems {
		for line := range strings.Lines(p.Text) {
			v.Println(v.Red("problem: ") + strings.TrimRight(line, "\n"))
		}
		if p.Hint != "" {
			v.Println("   hint: " + p.Hint)
		}
	}
	for _, s := range a.Warnings {
		v.Println(v.Yellow("warning: ") + s)
	}
	for _, p := range a.Hidden {
		v.Printf("not visible from here: %s: %s\n", strings.ReplaceAll(p.Part, "_", " "), p.Why)
	}
}
