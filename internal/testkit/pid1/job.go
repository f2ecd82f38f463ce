package pid1

import "slices"

type jobKind int

const (
	jobStart jobKind = iota
	jobVerify
	jobStop
	jobRestart
	jobTryRestart // only of a request: it is installed as jobRestart
)

func (k jobKind) String() string {
	return [...]string{"start", "verify-active", "stop", "restart", "try-restart"}[k]
}

// job is an installed job. A restart becomes a start when its unit is down.
type job struct {
	id      uint64
	kind    jobKind
	unit    *unit
	running bool
	tried   bool // it cannot run until another job has made progress
}

// conflict reports whether the jobs exclude each other (job_type_is_conflicting).
func conflict(a, b jobKind) bool {
	return (a == jobStop) != (b == jobStop)
}

// merged returns the job that includes both (job_merging_table).
func merged(a, b jobKind) jobKind {
	switch {
	case a == jobRestart || b == jobRestart:
		return jobRestart
	case a == jobStart || b == jobStart:
		return jobStart
	}
	return a
}

// superset reports whether a includes b (job_type_is_superset).
func superset(a, b jobKind) bool { return !conflict(a, b) && merged(a, b) == a }

// install is job_install: the job replaces, or is merged into, the job that the unit has.
func (m *Manager) install(kind jobKind, u *unit) *job {
	if old := u.job; old != nil {
		switch {
		case conflict(old.kind, kind):
			m.finish(old, "canceled", false)
		case !old.running || superset(old.kind, kind):
			old.kind = merged(old.kind, kind)
			return old
		default: // it runs, and runs again
			old.kind, old.running = merged(old.kind, kind), false
			return old
		}
	}
	m.last++
	j := &job{id: m.last, kind: kind, unit: u}
	u.job = j
	m.jobs = append(m.jobs, j)
	return j
}

// dispatch runs the jobs that need not wait, in the order of the run queue: by type and name of the units
// (unit_compare_priority).
func (m *Manager) dispatch() {
	for progress := true; ; {
		if progress {
			for _, j := range m.jobs {
				j.tried = false
			}
		}
		j := m.runnable()
		if j == nil {
			return
		}
		j.tried = true
		progress = m.run(j)
	}
}

// runnable returns the next job of the run queue, nil if there is none.
func (m *Manager) runnable() (next *job) {
	for _, j := range m.jobs {
		if !j.running && !j.tried && (next == nil || earlier(j.unit, next.unit)) && !m.waits(j) {
			next = j
		}
	}
	return next
}

// earlier reports whether the job of a is run before the job of b.
func earlier(a, b *unit) bool {
	if a.rank != b.rank {
		return a.rank > b.rank
	}
	return a.Name < b.Name
}

// waits reports whether a job has to wait for the job of another unit (job_is_runnable, job_compare).
func (m *Manager) waits(j *job) bool {
	stops := func(k jobKind) bool { return k == jobStop || k == jobRestart }
	for _, o := range j.unit.edges[after] {
		if o.job != nil && !stops(j.kind) {
			return true // a start, or a stop in progress, of the earlier unit
		}
	}
	for _, o := range j.unit.edges[before] {
		if o.job != nil && stops(o.job.kind) {
			return true
		}
	}
	return false
}

// run is job_run_and_invalidate. It returns false if nothing has changed.
func (m *Manager) run(j *job) bool {
	j.running = true
	u := j.unit
	switch j.kind {
	case jobStart:
		return m.runStart(j)
	case jobVerify:
		switch u.active() {
		case "active":
			m.finish(j, "done", true)
		case "activating":
			j.running = false
			return false
		default:
			m.finish(j, "skipped", true)
		}
	default:
		if isDown(u.active()) {
			m.finish(j, "done", true)
		} else {
			m.stop(u)
		}
	}
	return true
}

func (m *Manager) runStart(j *job) bool {
	switch result := m.start(j.unit); result {
	case "":
	case "again":
		j.running = false
		return false
	default:
		if j.unit.job == j {
			m.finish(j, result, true)
		}
	}
	return true
}

// finish ends a job (job_finish_and_invalidate). A restart that has stopped its unit becomes a start.
func (m *Manager) finish(j *job, result string, recursive bool) {
	if result == "done" && j.kind == jobRestart {
		j.kind, j.running = jobStart, false
		return
	}
	j.unit.job = nil
	m.jobs = slices.DeleteFunc(m.jobs, func(o *job) bool { return o == j })
	m.env.Log(Event{Unit: j.unit.Name, Job: j.id, Type: j.kind.String(), Result: result})
	if result == "done" || !recursive || j.kind != jobStart && j.kind != jobVerify {
		return
	}
	for _, o := range j.unit.all(requiredBy, requisiteOf, boundBy) {
		if o.job != nil && (o.job.kind == jobStart || o.job.kind == jobVerify) {
			m.finish(o.job, "dependency", true)
		}
	}
}
