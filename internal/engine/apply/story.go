package apply

import (
	"fmt"
	"time"

	"dcm/internal/engine/event"
	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
	"dcm/internal/text"
)

// begins logs that the first change is about to begin.
func (r *Recorder) begins(steps partition.Steps) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("putting profile %s on the GPUs: %s to do", r.run.Profile, text.Count(len(steps), "step"))
	if steps.Reloads() {
		text += ", among them a driver reload"
	}
	r.log.With("gpu", r.run.Touched()).Info(text, event.RunBegan.Attr())
}

// ended logs the end of a step, with fields to search for.
func (r *Recorder) ended(s runstate.Step, err error) {
	took := s.Finished.Sub(s.Started).Round(time.Millisecond)
	log := r.log.With("step", string(s.Kind), "took", took, "gpu", concerned(r.run.GPUs, s))
	if s.GPU != "" {
		log = log.With("from", s.From, "to", s.To)
	}
	if err != nil {
		id := event.StepFailed
		if s.Kind == partition.ReloadDriver {
			id = event.ReloadFailed
		}
		log.Error(err.Error(), "error", err.Error(), id.Attr())
		return
	}
	log.Info(done(s, took))
}

// concerned lists the GPUs that a step concerns: a request is for a whole hive, and a reload for all
// GPUs. The first is the GPU that the step writes to.
func concerned(gpus []runstate.GPU, s runstate.Step) []string {
	var all []string
	if s.GPU == "" {
		for _, g := range gpus {
			all = append(all, string(g.Address))
		}
		return all
	}
	all = append(all, string(s.GPU))
	for _, a := range s.Hive {
		if a != s.GPU {
			all = append(all, string(a))
		}
	}
	return all
}

// done describes a completed step.
func done(s runstate.Step, took time.Duration) string {
	text := fmt.Sprintf("%s, in %s", s.DoneText(s.Undo), took)
	if !s.Kind.Observable() {
		text += "; it takes effect at the next load of the driver"
	}
	return text
}
