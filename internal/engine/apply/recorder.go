package apply

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/gpu/partition"
)

// publishInterval is the minimum time between two reports during a run. Each report is written as
// a whole, so one for each step would cost time quadratic in the number of GPUs.
const publishInterval = 50 * time.Millisecond

// Recorder keeps and publishes the report of a run. Its methods may be called from several
// goroutines.
type Recorder struct {
	publish func(runstate.Run)
	log     *slog.Logger
	now     func() time.Time

	mu        sync.Mutex
	run       runstate.Run
	undo      bool
	base      int // index of the first step of the current plan
	published time.Time
	flush     *time.Timer // publishes a delayed report; nil if there is none
}

// NewRecorder returns a recorder. run has the fields that identify it (ID, Boot, PID, Source)
// and the totals of earlier runs.
func NewRecorder(run runstate.Run, log *slog.Logger, publish func(runstate.Run)) *Recorder {
	run.Version = runstate.Version
	return &Recorder{publish: publish, log: log, now: time.Now, run: run}
}

// Source records what selected the profile, and why the configuration on disk is not
// effective, or "" if it is.
func (r *Recorder) Source(source, broken string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Source, r.run.Config = source, broken
}

// Warn records a problem that does not fail the run.
func (r *Recorder) Warn(text string, attrs ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Warnings = append(r.run.Warnings, text)
	r.log.Warn(text, attrs...)
}

// Refuse publishes a run that ended before its first change.
func (r *Recorder) Refuse(profile string, why runstate.Error) runstate.Run {
	r.begin(profile)
	return r.end(runstate.Refused, &why)
}

// Nothing publishes a run without a selected profile.
func (r *Recorder) Nothing() runstate.Run {
	r.begin("")
	return r.end(runstate.NoProfile, nil)
}

// Run returns the current report.
func (r *Recorder) Run() runstate.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.run
	run.GPUs, run.Steps = slices.Clone(run.GPUs), slices.Clone(run.Steps)
	return run
}

func (r *Recorder) begin(profile string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Profile, r.run.Result, r.run.Started = profile, runstate.Running, r.now()
	r.log = r.log.With("profile", profile)
	r.out(true)
}

func (r *Recorder) end(result runstate.Result, failure *runstate.Error) runstate.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Result, r.run.Error, r.run.Finished = result, failure, r.now()
	r.run.Totals = r.run.Totals.Plus(result, r.run.Finished)
	r.out(true)
	return r.run
}

// record changes the report, which is published later.
func (r *Recorder) record(change func(*runstate.Run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.run)
}

// out publishes the report immediately, or at the next interval if now is false.
func (r *Recorder) out(now bool) {
	wait := publishInterval - r.now().Sub(r.published)
	if !now && wait > 0 {
		if r.flush == nil {
			r.flush = time.AfterFunc(wait, r.publishDelayed)
		}
		return
	}
	if r.flush != nil {
		r.flush.Stop()
		r.flush = nil
	}
	r.published = r.now()
	r.publish(r.run)
}

// publishDelayed publishes a delayed report, unless the run has ended meanwhile.
func (r *Recorder) publishDelayed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flush != nil && r.run.Finished.IsZero() {
		r.out(true)
	}
}

func (r *Recorder) undoing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = true
	r.log.With("gpu", r.run.Touched()).Warn("undoing the changes")
}

// planned replaces the steps that have not begun by those of a new plan.
func (r *Recorder) planned(steps partition.Steps) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := r.run.Steps[:0]
	for _, s := range r.run.Steps {
		if !s.Started.IsZero() {
			begun = append(begun, s)
		}
	}
	r.base = len(begun)
	for _, s := range steps {
		begun = append(begun, runstate.Step{Step: s, Undo: r.undo})
	}
	r.run.Steps = begun
	r.out(steps.Reloads()) // see HalfReloaded
}

// step records the beginning or the end of a step.
func (r *Recorder) step(s partition.Step, started bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	step := find(r.run.Steps[r.base:], s)
	if step == nil {
		return
	}
	if started {
		if step.Started.IsZero() {
			step.Started = r.now()
		}
		r.out(false)
		return
	}
	step.Finished, step.Error = r.now(), ""
	g := gpuOf(&r.run, s.GPU)
	switch {
	case err != nil:
		step.Error = err.Error()
		if g != nil {
			g.Error = step.Error
		}
	default:
		if g != nil && s.Kind.Observable() {
			g.Now, g.Error = g.Now.AfterStep(s), ""
		}
	}
	r.ended(*step, err)
	r.out(false)
}

// find returns s among the steps of a plan, nil if it is none of them.
func find(plan []runstate.Step, s partition.Step) *runstate.Step {
	for i := range plan {
		if t := &plan[i]; t.Kind == s.Kind && t.GPU == s.GPU {
			return t
		}
	}
	return nil
}

// gpuOf returns a GPU of a report, nil if it is not there.
func gpuOf(run *runstate.Run, a partition.Address) *runstate.GPU {
	for i := range run.GPUs {
		if run.GPUs[i].Address == a {
			return &run.GPUs[i]
		}
	}
	return nil
}

// gpusBefore returns the GPUs of a report before the first change.
func gpusBefore(d Difference) []runstate.GPU {
	models := make(map[partition.Address]string)
	for _, dev := range d.Devices {
		models[dev.Address] = dev.Model
	}
	var out []runstate.GPU
	for _, g := range d.GPUs {
		want, ok := d.Want.Shapes[g.Address]
		if !ok {
			want = g.Shape()
		}
		out = append(out, runstate.GPU{
			Address: g.Address, Model: models[g.Address],
			Before: g.Shape(), Now: g.Shape(), Want: want,
			Skipped: d.Want.Skipped[g.Address],
		})
	}
	return out
}

// begun returns the number of steps that have begun.
func begun(steps []runstate.Step) (n int) {
	for _, s := range steps {
		if !s.Started.IsZero() {
			n++
		}
	}
	return n
}

// failed returns the GPUs whose last step failed, without regard to the first steps.
func failed(steps []runstate.Step, first int) []partition.Address {
	var out []partition.Address
	for _, s := range steps[min(first, len(steps)):] {
		if s.Started.IsZero() {
			continue
		}
		out = slices.DeleteFunc(out, func(a partition.Address) bool { return a == s.GPU })
		if s.Error != "" {
			out = append(out, s.GPU)
		}
	}
	return out
}
