package selftestcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/selftest"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// event is one step of a self-test. The test in dcm-selftest.service writes events as lines of JSON, and
// the command shows them.
type event struct {
	Begin   *head                `json:"begin,omitempty"`
	Doing   string               `json:"doing,omitempty"` // what is under way
	Wait    *wait                `json:"waits,omitempty"`
	Mode    *selftest.ModeResult `json:"mode,omitempty"`
	Outcome *selftest.Outcome    `json:"outcome,omitempty"`
}

// wait is what a change waits for. It has the names of units and processes, so it is not in the archive.
type wait struct {
	What   string    `json:"what"`   // the change: "SPX/NPS1: the change after the GPU is closed"
	Reason string    `json:"reason"` // why the daemon cannot make it now, with the holders of the GPUs
	Until  time.Time `json:"until"`  // when the self-test gives up
}

// head is what the table of a test needs before its first row.
type head struct {
	Modes   []string           `json:"modes"`
	Vendors []partition.Vendor `json:"vendors"`
	Changed bool               `json:"changed"`
}

// found and restored are the rows before the first change and after the last one.
const (
	found    = "as found"
	restored = "restored"
)

// maintainers is where the archive is sent to. The packages have the address.
const maintainers = "the maintainers of dcm, see REPORTING BUGS in dcm(1)"

// view shows the events of a self-test: a row for each mode, with details of the wrong ones.
type view struct {
	con     *console.Console
	columns []column
	gap     int
	doing   string
	since   time.Time
	drawn   bool // the last line shows what is under way
	over    bool // the outcome was shown
}

type column struct {
	title string
	width int
	cell  func(selftest.ModeResult) string
}

func (v *view) show(e event) {
	v.clear()
	switch {
	case e.Begin != nil:
		v.begin(*e.Begin)
	case e.Wait != nil:
		v.waits(*e.Wait)
	case e.Mode != nil:
		v.doing = ""
		v.mode(*e.Mode)
	case e.Outcome != nil:
		v.doing, v.over = "", true
		v.outcome(*e.Outcome)
	case e.Doing != "":
		v.doing, v.since = e.Doing, time.Now()
	}
}

// tick draws what is under way.
func (v *view) tick(now time.Time) {
	if v.doing == "" || !v.con.Live {
		return
	}
	v.clear()
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	line := fmt.Sprintf("  %c %s  %s", frames[now.UnixMilli()/200%int64(len(frames))], v.doing, text.Duration(now.Sub(v.since).Truncate(100*time.Millisecond)))
	fmt.Fprint(v.con.Out, text.CutEnd(line, v.con.Width()-1)+"\r")
	v.drawn = true
}

func (v *view) clear() {
	if v.drawn {
		fmt.Fprint(v.con.Out, "\x1b[K")
		v.drawn = false
	}
}

// begin chooses the columns that fit the terminal, and prints their titles.
func (v *view) begin(p head) {
	mode := text.Width(restored)
	for _, m := range p.Modes {
		mode = max(mode, text.Width(m))
	}
	v.columns = []column{{"MODE", mode, func(m selftest.ModeResult) string { return m.Mode }}}
	phases := phaseColumns(p)
	if p.Changed {
		v.columns = append(v.columns, column{"CHANGE", 7, duration})
	}
	sources := v.sources(p.Vendors)
	v.gap = 2
	if width := v.con.Width(); width > 0 && v.width(phases, sources) > width {
		if v.gap = 1; v.width(phases, sources) > width {
			phases = nil
		}
		if v.gap = 2; v.width(phases, sources) > width {
			v.gap = 1
		}
	}
	v.columns = slices.Concat(v.columns, phases, sources)
	line := "   "
	for _, c := range v.columns {
		line += " " + text.Pad(c.title, c.width+v.gap-1)
	}
	fmt.Fprintln(v.con.Out, strings.TrimRight(line, " "))
}

func (v *view) width(more ...[]column) int {
	sum := 4 - v.gap
	for _, c := range slices.Concat(v.columns, slices.Concat(more...)) {
		sum += c.width + v.gap
	}
	return sum
}

// phaseColumns returns the phases of a change. Instances of MIG are made without a reload.
func phaseColumns(p head) []column {
	if !p.Changed {
		return nil
	}
	var out []column
	for _, name := range []string{"stop", "reload", "settle", "switch", "start"} {
		if (name == "reload" || name == "settle") && !slices.Contains(p.Vendors, partition.AMD) {
			continue
		}
		out = append(out, column{strings.ToUpper(name), max(5, len(name)), func(m selftest.ModeResult) string { return console.OrDash(m.Timing.Phase(name)) }})
	}
	return out
}

// sources returns the columns of what is compared, in the terms of the vendor.
func (v *view) sources(vendors []partition.Vendor) []column {
	titles := map[selftest.Source]string{selftest.Modes: "MODES", selftest.Partitions: "PARTS", selftest.Library: "OTHER"}
	if len(vendors) == 1 && vendors[0] == partition.AMD {
		titles = map[selftest.Source]string{selftest.Modes: "SYSFS", selftest.Partitions: "KFD", selftest.Library: "SMI"}
	} else if len(vendors) == 1 {
		titles = map[selftest.Source]string{selftest.Modes: "NVML", selftest.Partitions: "PARTS", selftest.Library: "PROC"}
	}
	titles[selftest.Daemon], titles[selftest.Nodes] = "DBUS", "NODES"
	var out []column
	for _, s := range []selftest.Source{selftest.Modes, selftest.Partitions, selftest.Library, selftest.Daemon, selftest.Nodes} {
		out = append(out, column{titles[s], len(titles[s]), func(m selftest.ModeResult) string { return markOf(v.con, m.Of(s)) }})
	}
	return out
}

func duration(m selftest.ModeResult) string {
	switch {
	case m.Mode == found:
		return "-"
	case m.Timing == nil:
		return "none"
	}
	return m.Timing.Total()
}

// mode prints the row of a mode, and below it what is wrong.
func (v *view) mode(m selftest.ModeResult) {
	mark := markOf(v.con, m.Verdict())
	line := "  " + mark
	if m.SkipReason != "" {
		v.con.Labelled("  - "+text.Pad(m.Mode, v.columns[0].width+v.gap), "left out: "+m.SkipReason)
		return
	}
	for _, c := range v.columns {
		line += " " + text.Pad(c.cell(m), c.width+v.gap-1)
	}
	fmt.Fprintln(v.con.Out, strings.TrimRight(line, " "))
	for _, failure := range m.Failures() {
		v.con.Labelled("      ", failure)
	}
}

// waits prints what a change waits for.
func (v *view) waits(w wait) {
	v.con.Labelled("  "+v.con.Yellow("…")+" ", fmt.Sprintf("%s waits until %s: %s", w.What, w.Until.Local().Format(time.TimeOnly), w.Reason))
}

// outcome prints the conclusion.
func (v *view) outcome(o selftest.Outcome) {
	if notes := o.Notes(); len(notes) > 0 {
		v.con.Println("")
		for _, c := range notes {
			v.con.Labelled("  "+markOf(v.con, c.Verdict)+" ", c.What+": "+c.Text)
		}
	}
	if len(o.Differ) > 0 {
		v.con.Printf("\n%d of %d facts differ from the simulator, which is no fault of the host:\n", len(o.Differ), o.Facts)
		t := v.con.NewTable("MODEL", "FACT", "SIMULATOR", "SEEN")
		for _, r := range o.Differ {
			t.Row(r.Model, r.Fact, console.OrDash(r.Claimed), v.con.Yellow(console.OrDash(r.Seen)))
		}
		t.Flush()
	}
	verdict, paint := o.Verdict(), v.con.Green
	if o.Failed() {
		paint = v.con.Red
	}
	counts := o.Counts
	if len(o.Differ) > 0 {
		counts += fmt.Sprintf("; %d differ from the simulator", len(o.Differ))
	}
	v.con.Printf("\n%s %s.\n", paint(verdict), text.Sentence(counts)[:len(counts)])
	if o.Archive != "" {
		v.con.Printf("The archive is %s. Read its CONTENTS.txt, and send it to %s.\n", o.Archive, maintainers)
	}
}

func markOf(con *console.Console, v selftest.Verdict) string {
	switch v {
	case selftest.Right:
		return con.Green("✓")
	case selftest.Wrong:
		return con.Red("×")
	case selftest.NotSeen:
		return con.Yellow("?")
	case selftest.Noted:
		return "i"
	}
	return "-"
}

// forOutput returns the console of a test whose archive goes to standard output.
func forOutput(con *console.Console, archive string) *console.Console {
	if archive == "-" {
		return con.To(con.Err)
	}
	return con
}

// quiet returns a console that shows nothing: what a change prints is not part of the table.
func quiet() *console.Console { return &console.Console{Out: io.Discard, Err: io.Discard} }
