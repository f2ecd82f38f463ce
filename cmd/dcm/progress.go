package main

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/report"
)

// progress shows a run while it goes on: on a terminal one line a GPU, redrawn;
// elsewhere one line for each step that has ended.
type progress struct {
	h      *host
	before string // the id of the run before, which is not ours
	ran    bool   // a run of ours was seen
	lines  int    // drawn last
	told   map[string]bool
}

func newProgress(h *host, before *report.Run) *progress {
	p := &progress{h: h, told: make(map[string]bool)}
	if before != nil {
		p.before = before.ID
	}
	return p
}

// update shows the report as it is now. An unreadable one is left for the end.
func (p *progress) update(h *host) {
	run, err := report.ReadRun(h.runtime())
	if err != nil || run == nil || run.ID == p.before {
		return
	}
	p.ran = true
	if p.h.terminal {
		p.draw(run)
		return
	}
	for _, s := range run.Steps {
		if key := fmt.Sprint(s.Undo, s.Step); !s.Finished.IsZero() && !p.told[key] {
			p.told[key] = true
			fmt.Fprintln(p.h.out, stepLine(s))
		}
	}
}

func stepLine(s report.Step) string {
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

// draw replaces the lines drawn last.
func (p *progress) draw(run *report.Run) {
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
			line("  " + p.h.mark(s) + " " + s.Step.String())
		}
	}
	for _, g := range run.GPUs {
		line(fmt.Sprintf("  %s %s %s  %s → %s", p.h.gpuMark(g), g.Address, g.Model, g.Now, g.Want))
	}
	fmt.Fprint(p.h.out, b.String())
}

// close leaves the last drawing where it is.
func (p *progress) close() { p.lines = 0 }

func (h *host) mark(s report.Step) string {
	switch {
	case s.Error != "":
		return h.red("×")
	case !s.Finished.IsZero():
		return h.green("✓")
	case !s.Started.IsZero():
		return h.yellow("…")
	}
	return " "
}

func (h *host) gpuMark(g report.GPU) string {
	switch {
	case g.Error != "":
		return h.red("×")
	case g.Now == g.Want:
		return h.green("✓")
	}
	return h.yellow("…")
}
