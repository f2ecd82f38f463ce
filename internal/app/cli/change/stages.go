package change

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// stage is the steps of a run of one kind that follow each other, such as the switches of all GPUs.
type stage struct {
	kind  partition.Kind
	undo  bool
	steps []runstate.Step
}

// stagesOf groups the steps.
func stagesOf(steps []runstate.Step) []stage {
	var out []stage
	for _, s := range steps {
		if n := len(out) - 1; n >= 0 && out[n].kind == s.Kind && out[n].undo == s.Undo {
			out[n].steps = append(out[n].steps, s)
			continue
		}
		out = append(out, stage{s.Kind, s.Undo, []runstate.Step{s}})
	}
	return out
}

// text describes the stage: that of several GPUs in one line.
func (s stage) text() string {
	gpus := text.Count(s.gpus(), "GPU")
	what := s.steps[0].Step.String()
	switch {
	case s.kind == partition.RequestMemory:
		what = "request " + s.to() + " for " + gpus
	case len(s.steps) == 1:
	case s.kind == partition.SwitchCompute:
		what = "switch " + gpus + " to " + s.to()
	case s.kind == partition.DestroyInstances:
		what = "destroy MIG instances of " + gpus
	case s.kind == partition.SetMIGMode:
		what = "switch MIG " + s.to() + " for " + gpus
	case s.kind == partition.CreateInstances:
		what = "create MIG instances of " + gpus
	}
	if s.undo {
		what = "go back: " + what
	}
	return what
}

// gpus returns the number of GPUs of the steps. A request for memory is for a whole hive.
func (s stage) gpus() int {
	n := 0
	for _, step := range s.steps {
		n += max(1, len(step.Hive))
	}
	return n
}

// to returns the mode that all steps set, or "other modes" if they set several.
func (s stage) to() string {
	for _, step := range s.steps {
		if step.To != s.steps[0].To {
			return "other modes"
		}
	}
	return s.steps[0].To
}

// span returns the beginning of the first step, and the end of the last one; zero if it has not ended.
func (s stage) span() (from, to time.Time) {
	for _, step := range s.steps {
		if !step.Started.IsZero() && (from.IsZero() || step.Started.Before(from)) {
			from = step.Started
		}
	}
	for _, step := range s.steps {
		if step.Finished.IsZero() {
			return from, time.Time{}
		}
		if step.Finished.After(to) {
			to = step.Finished
		}
	}
	return from, to
}

// took returns how long the stage took, 0 if it has not ended.
func (s stage) took() time.Duration {
	from, to := s.span()
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return to.Sub(from)
}

// count returns how many steps have ended, and the first error.
func (s stage) count() (done int, failure string) {
	for _, step := range s.steps {
		if step.Error != "" && failure == "" {
			failure = step.Error
		}
		if !step.Finished.IsZero() && step.Error == "" {
			done++
		}
	}
	return done, failure
}

// row is a line of the drawing.
type row struct {
	state rowState
	what  string
	right string // time, or progress
	note  string // after it: an error, or the time of the run before
	frame int    // of the spinner
}

type rowState int

const (
	waiting rowState = iota
	active
	done
	failed
)

// rows returns the lines of the drawing.
func (p picture) rows(now time.Time, last map[partition.Kind]time.Duration) []row {
	var out []row
	frame := int(now.UnixMilli() / redrawInterval.Milliseconds())
	services := text.Count(len(p.services), "service")
	if p.stops() {
		r := row{state: active, what: "stop " + services, right: text.Duration(now.Sub(p.stopping)), frame: frame}
		if p.run != nil {
			r.state, r.right = done, text.Duration(p.run.Started.Sub(p.stopping))
		}
		out = append(out, r)
	}
	ended := false
	if p.run != nil {
		ended = !p.run.Finished.IsZero()
		for _, s := range stagesOf(p.run.Steps) {
			out = append(out, s.row(now, last[s.kind], ended, frame))
		}
	}
	if p.stops() {
		r := row{what: "start " + services}
		switch {
		case ended && !p.ended.IsZero():
			r.state, r.right = done, text.Duration(p.ended.Sub(p.run.Finished))
		case ended:
			r.state, r.right, r.frame = active, text.Duration(now.Sub(p.run.Finished)), frame
		}
		out = append(out, r)
	}
	return out
}

func (s stage) row(now time.Time, last time.Duration, ended bool, frame int) row {
	r := row{what: s.text(), frame: frame}
	from, _ := s.span()
	finished, failure := s.count()
	n := len(s.steps)
	progress := ""
	if n > 1 && finished < n {
		progress = fmt.Sprintf(", %d of %d", finished, n)
	}
	switch {
	case failure != "":
		r.state, r.right, r.note = failed, text.Duration(s.took())+progress, text.OneLine(failure)
		if s.took() == 0 {
			r.right = strings.TrimPrefix(progress, ", ")
		}
	case finished == n:
		r.state, r.right = done, text.Duration(s.took())
	case from.IsZero():
		r.right = "waiting"
		if ended {
			r.right = "not begun"
		}
	default:
		r.state, r.right = active, text.Duration(now.Sub(from))+progress
		if last > time.Second {
			r.note = "the last took " + text.Duration(last)
		}
	}
	return r
}

// spinner are the marks of a stage that is under way.
var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// text returns the line, cut at the width.
func (r row) text(con *console.Console, width int) string {
	mark := " "
	switch r.state {
	case active:
		mark = con.Yellow(spinner[r.frame%len(spinner)])
	case done:
		mark = con.Green("✓")
	case failed:
		mark = con.Red("×")
	}
	const left = 4                   // indentation and mark
	column := min(48, width-left-14) // of the times
	line := text.Pad(text.CutMiddle(r.what, column), column+2) + r.right
	if r.note != "" {
		line += "   " + r.note
	}
	if line = strings.TrimRight(line, " "); text.Width(line) > width-left {
		line = text.CutEnd(line, width-left-1) + "…"
	}
	return "  " + mark + " " + line
}
