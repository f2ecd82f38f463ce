package change

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// progress shows runs: on a terminal one line for each stage, redrawn; elsewhere one line for each
// finished stage and step.
type progress struct {
	con     *console.Console
	before  string                           // the id of the run before, which is not ours, or of the last one that was shown
	last    map[partition.Kind]time.Duration // how long the stages of the run before took
	began   time.Time
	ran     bool // a run of ours was seen
	now     picture
	lines   int // drawn last
	printed map[string]bool
}

func newProgress(con *console.Console, before *runstate.Run) *progress {
	p := &progress{con: con, began: time.Now(), last: make(map[partition.Kind]time.Duration), printed: make(map[string]bool)}
	if before != nil {
		p.before = before.ID
		for _, s := range stagesOf(before.Steps) {
			if d := s.took(); d > 0 && !s.undo {
				p.last[s.kind] = d
			}
		}
	}
	return p
}

// update shows the current report. An unreadable one is reported at the end.
func (p *progress) update(h *host.Host) {
	if state, err := runstate.ReadState(h.Runtime()); err == nil && state != nil && state.Phase == runstate.Applying && !state.Since.Before(p.began.Add(-time.Second)) {
		if p.now.run != nil && !p.now.run.Finished.IsZero() && state.Since.After(p.now.run.Started) {
			p.next() // another round
		}
		p.now.stopping = state.Since
		if len(state.Pending) > 0 {
			p.now.services = state.Pending.Units()
		}
	}
	run, err := runstate.ReadRun(h.Runtime())
	if err == nil && run != nil && run.ID != p.before {
		if p.now.run != nil && p.now.run.ID != run.ID {
			p.next()
		}
		p.ran, p.now.run = true, run
	}
	p.show()
}

// next keeps what was shown of a run, and begins with the next one.
func (p *progress) next() {
	p.now.ended = time.Now()
	p.show()
	if p.now.run != nil {
		p.before = p.now.run.ID
	}
	p.now, p.lines, p.printed = picture{}, 0, make(map[string]bool)
}

// show draws the picture, or prints what has ended since.
func (p *progress) show() {
	if p.now.stopping.IsZero() && p.now.run == nil {
		return
	}
	if p.con.Live {
		p.draw()
		return
	}
	for _, line := range p.now.finished() {
		if !p.printed[line] {
			p.printed[line] = true
			p.con.Println(line)
		}
	}
}

// draw replaces the lines that were drawn last.
func (p *progress) draw() {
	var b strings.Builder
	if p.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.lines)
	}
	rows := p.now.rows(time.Now(), p.last)
	width := max(p.con.Width(), 40)
	for _, r := range rows {
		b.WriteString(r.text(p.con, width) + "\n")
	}
	p.lines = len(rows)
	fmt.Fprint(p.con.Out, b.String())
}

// close shows the end, and keeps the last drawing on the screen.
func (p *progress) close() {
	p.now.ended = time.Now()
	p.show()
	p.lines = 0
}

// took returns how long the change took, 0 without a run.
func (p *progress) took() time.Duration {
	if !p.ran {
		return 0
	}
	return max(time.Since(p.began), time.Millisecond)
}
