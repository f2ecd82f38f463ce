package pid1

import (
	"fmt"
	"slices"
)

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

// transaction is a set of jobs that are installed together.
type transaction struct {
	m     *Manager
	jobs  []*planned
	names map[*unit]*planned
}

// planned is a job of a transaction.
type planned struct {
	kind    jobKind
	unit    *unit
	matters bool // the transaction fails without it
	anchor  bool
}

// transact queues a job with those that it requires. fail refuses to replace jobs (mode "fail").
func (m *Manager) transact(kind jobKind, u *unit, fail bool) (*job, error) {
	if kind == jobTryRestart {
		if isDown(u.active()) || u.active() == "deactivating" {
			return nil, nil
		}
		kind = jobRestart
	}
	t := &transaction{m: m, names: make(map[*unit]*planned)}
	if err := t.add(kind, u, true); err != nil {
		return nil, err
	}
	t.names[u].anchor = true
	t.dropRedundant()
	if err := t.checkOrder(); err != nil {
		return nil, err
	}
	if fail {
		for _, p := range t.jobs {
			if j := p.unit.job; j != nil && !superset(p.kind, j.kind) {
				return nil, fmt.Errorf("%s has '%s' job queued: %w", p.unit.Name, j.kind, ErrDestructive)
			}
		}
	}
	m.env.Shuffle(len(t.jobs), func(i, k int) { t.jobs[i], t.jobs[k] = t.jobs[k], t.jobs[i] })
	// systemd was seen to verify first, also without After=.
	slices.SortStableFunc(t.jobs, func(a, b *planned) int { return first(b) - first(a) })
	var anchor *job
	for _, p := range t.jobs {
		j := m.install(p.kind, p.unit)
		if p.anchor {
			anchor = j
		}
	}
	return anchor, nil
}

func first(p *planned) int {
	if p.kind == jobVerify {
		return 1
	}
	return 0
}

// add is transaction_add_job_and_dependencies.
func (t *transaction) add(kind jobKind, u *unit, matters bool) error {
	if p := t.names[u]; p != nil {
		switch {
		case conflict(p.kind, kind) && !matters:
			return errNotEffective
		case conflict(p.kind, kind) && p.matters:
			return fmt.Errorf("%s: %w", u.Name, ErrConflicting)
		case conflict(p.kind, kind):
			p.kind, p.matters = kind, true
		case superset(p.kind, kind):
			p.matters = p.matters || matters
			return nil
		default:
			p.kind, p.matters = merged(p.kind, kind), p.matters || matters
		}
	} else {
		p := &planned{kind: kind, unit: u, matters: matters}
		t.names[u] = p
		t.jobs = append(t.jobs, p)
	}
	if kind == jobStart || kind == jobRestart {
		for _, o := range u.all(requires, bindsTo) {
			if err := t.add(jobStart, o, matters); err != nil && err != errNotEffective {
				return err
			}
		}
		for _, o := range u.all(wants, upholds) {
			_ = t.add(jobStart, o, false)
		}
		for _, o := range u.all(requisite) {
			if err := t.add(jobVerify, o, matters); err != nil && err != errNotEffective {
				return err
			}
		}
		for _, o := range u.all(conflicts) {
			if err := t.add(jobStop, o, matters); err != nil && err != errNotEffective {
				return err
			}
		}
		for _, o := range u.all(conflictedBy) {
			_ = t.add(jobStop, o, false)
		}
	}
	if kind == jobStop || kind == jobRestart {
		for _, o := range u.all(requiredBy, requisiteOf, boundBy, consistsOf) {
			next := jobStop
			if kind == jobRestart {
				if isDown(o.active()) || o.active() == "deactivating" {
					continue
				}
				next = jobRestart
			}
			if err := t.add(next, o, matters); err != nil && err != errNotEffective {
				return err
			}
		}
	}
	return nil
}

// dropRedundant removes jobs that have nothing to do (transaction_drop_redundant).
func (t *transaction) dropRedundant() {
	t.jobs = slices.DeleteFunc(t.jobs, func(p *planned) bool {
		if p.anchor || p.unit.job != nil && conflict(p.kind, p.unit.job.kind) {
			return false
		}
		switch p.kind {
		case jobStart, jobVerify:
			return p.unit.active() == "active"
		case jobStop:
			return isDown(p.unit.active())
		}
		return false
	})
}

// checkOrder returns an error for units that are ordered after each other (transaction_verify_order).
func (t *transaction) checkOrder() error {
	const open, done = 1, 2
	state := make(map[*unit]int)
	var visit func(u *unit) error
	visit = func(u *unit) error {
		if state[u] == done {
			return nil
		}
		if state[u] == open {
			return fmt.Errorf("%s: %w", u.Name, ErrCyclic)
		}
		state[u] = open
		for _, o := range u.edges[after] {
			if t.names[o] == nil {
				continue
			}
			if err := visit(o); err != nil {
				return err
			}
		}
		state[u] = done
		return nil
	}
	for _, p := range t.jobs {
		if err := visit(p.unit); err != nil {
			return err
		}
	}
	return nil
}

// install is job_install: the job replaces, or is merged into, the job that the unit has.
func (m *Manager) install(kind jobKind, u *unit) *job {
	if old := u.job; old != nil {
		switch {
		case conflict(old.kind, kind):
			m.finish(old, "canceled", false)
		case !old.running || superset(old.kind, kind) && kind != jobRestart:
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

// dispatch runs the jobs that need not wait.
func (m *Manager) dispatch() {
	for again := true; again; {
		again = false
		for _, j := range slices.Clone(m.jobs) {
			if j.running || j.unit.job != j || m.waits(j) {
				continue
			}
			if m.run(j) {
				again = true
			}
		}
	}
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
