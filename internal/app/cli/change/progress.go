package change

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
)

// progress shows a run: on a terminal one line for each GPU, redrawn; elsewhere one line for
// each finished step.
type progress struct {
	con     *console.Console
	before  string // the id of the run before, which is not ours
	ran     bool   // a run of ours was seen
	lines   int    // drawn last
	printed map[string]bool
}

func newProgress(con *console.Console, before *runstate.Run) *progress {
	p := &progress{con: con, printed: make(map[string]bool)}
	if before != nil {
		p.before = before.ID
	}
	return p
}

// update shows the current report. An unreadable one is reported at the end.
func (p *progress) update(h *host.Host) {
	run, err := runstate.ReadRun(h.Runtime())
	if err != nil || run == nil || run.ID == p.before {
		return
	}
	p.ran = true
	if p.con.Terminal {
		p.draw(run)
		return
	}
	for _, s := range run.Steps {
		if key := fmt.Sprint(s.Undo, s.Step); !s.Finished.IsZero() && !p.printed[key] {
			p.printed[key] = true
			fmt.Fprintln(p.con.Out, stepLine(s))
		}
	}
}

func stepLine(s runstate.Step) string {
	took := s.Finished.Sub(s.Started).Round(time.Millisecond)
	what := s.Step.String()
	if s.Undo {
		what = "go back: " + what
	}
	if s.Error != "" {
		return fmt.Sprintf("failed after %s: %s: %s", took, what, s.Error)
	}
	return fmt.Sprintf("done in %s: %s", took, what)
}

// draw replaces the lines that were drawn last.
func (p *progress) draw(run *runstate.Run) {
	var b strings.Builder
	if p.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.lines)
	}
	p.lines = 0
	line := func(s string) {
		fmt.Fprintln(&b, s)
		p.lines++
	}
	for _, s := range run.Steps {
		if s.GPU == "" || len(s.Hive) > 0 {
			line("  " + mark(p.con, s) + " " + s.Step.String())
		}
	}
	for _, g := range run.GPUs {
		line(fmt.Sprintf("  %s %s %s  %s → %s", gpuMark(p.con, g), g.Address, g.Model, g.Now, g.Want))
	}
	fmt.Fprint(p.con.Out, b.String())
}

// close keeps the last drawing on the screen.
func (p *progress) close() { p.lines = 0 }

func mark(con *console.Console, s runstate.Step) string {
	switch {
	case s.Error != "":
		return con.Red("×")
	case !s.Finished.IsZero():
		return con.Green("✓")
	case !s.Started.IsZero():
		return con.Yellow("…")
	}
	return " "
}

func gpuMark(con *console.Console, g runstate.GPU) string {
	switch {
	case g.Error != "":
		return con.Red("×")
	case g.Now.Same(g.Want):
		return con.Green("✓")
	}
	return con.Yellow("…")
}
