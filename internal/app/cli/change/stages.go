package change

import (
	"fmt"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// redrawInterval is the interval of the elapsed times on a terminal.
const redrawInterval = 100 * time.Millisecond

// picture is what is shown of one run.
type picture struct {
	services []string  // that are stopped for the run, and started after it
	stopping time.Time // when the stop began
	run      *runstate.Run
	ended    time.Time // when the services were started
}

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
	case s.kind == partition.SetAllocation:
		what = "set the memory allocation of " + gpus + " to " + s.to()
	case s.kind == partition.SetIsolation:
		what = "set the isolation of " + gpus + " to " + s.to()
	case s.kind == partition.DestroyInstances:
		what = "destroy MIG instances of " + gpus
	case s.kind == partition.SetMIGMode:
		what = s.turnsMIG() + gpus
	case s.kind == partition.CreateInstances:
		what = "create MIG instances of " + gpus
	}
	if s.undo {
		what = "go back: " + what
	}
	return what
}

// turnsMIG describes that MIG is turned on, off, or each on different GPUs.
func (s stage) turnsMIG() string {
	for _, step := range s.steps {
		if step.On() != s.steps[0].On() {
			return "turn MIG on or off for "
		}
	}
	if s.steps[0].On() {
		return "turn MIG on for "
	}
	return "turn MIG off for "
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

// rows returns the lines of the drawing.
func (p picture) rows(now time.Time, last map[partition.Kind]time.Duration) []row {
	var out []row
	frame := int(now.UnixMilli() / redrawInterval.Milliseconds())
	services := text.Count(len(p.services), "service")
	if p.stops() {
		r := row{state: rowActive, what: "stop " + services, right: text.Duration(now.Sub(p.stopping)), frame: frame}
		if p.run != nil {
			r.state, r.right = rowDone, text.Duration(p.run.Started.Sub(p.stopping))
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
			r.state, r.right = rowDone, text.Duration(p.ended.Sub(p.run.Finished))
		case ended:
			r.state, r.right, r.frame = rowActive, text.Duration(now.Sub(p.run.Finished)), frame
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
	share := ""
	if n > 1 && finished < n {
		share = fmt.Sprintf(", %d of %d", finished, n)
	}
	switch {
	case failure != "":
		r.state, r.right, r.note = rowFailed, text.Duration(s.took())+share, text.OneLine(failure)
		if s.took() == 0 {
			r.right = strings.TrimPrefix(share, ", ")
		}
	case finished == n:
		r.state, r.right = rowDone, text.Duration(s.took())
	case from.IsZero():
		r.right = "waiting"
		if ended {
			r.right = "not begun"
		}
	default:
		r.state, r.right = rowActive, text.Duration(now.Sub(from))+share
		if last > time.Second {
			r.note = "the last took " + text.Duration(last)
		}
	}
	return r
}

// finished returns a line for each step that has ended.
func (p picture) finished() []string {
	var out []string
	if run := p.run; run != nil {
		if p.stops() {
			out = append(out, fmt.Sprintf("done in %s: stop %s", run.Started.Sub(p.stopping).Round(time.Millisecond), text.Count(len(p.services), "service")))
		}
		for _, s := range run.Steps {
			if !s.Finished.IsZero() {
				out = append(out, stepLine(s))
			}
		}
		if p.stops() && !run.Finished.IsZero() && !p.ended.IsZero() {
			out = append(out, fmt.Sprintf("done in %s: start %s", p.ended.Sub(run.Finished).Round(time.Millisecond), text.Count(len(p.services), "service")))
		}
	}
	return out
}

// stops reports whether services are stopped for the run.
func (p picture) stops() bool { return len(p.services) > 0 && !p.stopping.IsZero() }

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
