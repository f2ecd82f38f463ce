package pid1

import (
	"fmt"
	"slices"
)

// transaction is a set of jobs that are installed together. A unit can have several of them until they are
// merged.
type transaction struct {
	m      *Manager
	anchor *planned // the requested job
	jobs   []*planned
}

// planned is a job of a transaction.
type planned struct {
	kind     jobKind
	unit     *unit
	needs    []*link
	neededBy []*link
	matters  bool // the transaction fails without it
	gone     bool // it was dropped
}

// link is the reason of a job: from pulls it in.
type link struct {
	from, to *planned
	matters  bool // from is dropped if to is dropped
	conflict bool // by Conflicts=
}

// transact queues a job with those that it requires (transaction_activate). The mode "fail" refuses to replace
// jobs. "restart-dependencies" makes a start restart what a restart would.
func (m *Manager) transact(kind jobKind, u *unit, mode string) (*job, error) {
	if kind == jobTryRestart {
		if isDown(u.active()) || u.active() == "deactivating" {
			return nil, nil
		}
		kind = jobRestart
	}
	t := &transaction{m: m}
	t.add(kind, u, nil, link{})
	if mode == "restart-dependencies" {
		t.propagate(jobRestart, t.anchor)
	}
	t.anchor.markNeeded()
	if mode == "fail" {
		t.minimise()
	}
	t.dropRedundant()
	t.collect()
	if err := t.breakCycles(); err != nil {
		return nil, err
	}
	if err := t.merge(); err != nil {
		return nil, err
	}
	t.dropRedundant()
	if mode == "fail" {
		for _, p := range t.jobs {
			if j := p.unit.job; j != nil && conflict(p.kind, j.kind) {
				return nil, fmt.Errorf("%s has '%s' job queued: %w", p.unit.Name, j.kind, ErrDestructive)
			}
		}
	}
	m.env.Shuffle(len(t.jobs), func(i, k int) { t.jobs[i], t.jobs[k] = t.jobs[k], t.jobs[i] })
	var anchor *job
	for _, p := range t.jobs {
		if j := m.install(p.kind, p.unit); p == t.anchor {
			anchor = j
		}
	}
	return anchor, nil
}

// add is transaction_add_job_and_dependencies.
func (t *transaction) add(kind jobKind, u *unit, by *planned, l link) {
	i := slices.IndexFunc(t.jobs, func(p *planned) bool { return p.unit == u && p.kind == kind })
	isNew := i < 0
	if isNew {
		i = len(t.jobs)
		t.jobs = append(t.jobs, &planned{kind: kind, unit: u})
	}
	p := t.jobs[i]
	if by == nil {
		t.anchor = p
	} else {
		l.from, l.to = by, p
		by.needs, p.neededBy = append(by.needs, &l), append(p.neededBy, &l)
	}
	if !isNew {
		return
	}
	if kind == jobStart || kind == jobRestart {
		t.addAll(jobStart, p, link{matters: true}, requires, bindsTo)
		t.addAll(jobStart, p, link{}, wants, upholds)
		t.addAll(jobVerify, p, link{matters: true}, requisite)
		t.addAll(jobStop, p, link{matters: true, conflict: true}, conflicts)
		t.addAll(jobStop, p, link{}, conflictedBy)
	}
	if kind == jobStop || kind == jobRestart {
		t.propagate(kind, p)
	}
}

// propagate adds the stops or restarts of the units that need the unit of a job.
func (t *transaction) propagate(kind jobKind, by *planned) {
	for _, o := range by.unit.all(requiredBy, requisiteOf, boundBy, consistsOf) {
		if kind == jobRestart && (isDown(o.active()) || o.active() == "deactivating") {
			continue
		}
		t.add(kind, o, by, link{matters: true})
	}
}

func (t *transaction) addAll(kind jobKind, by *planned, l link, rs ...relation) {
	for _, o := range by.unit.all(rs...) {
		t.add(kind, o, by, l)
	}
}

// markNeeded is transaction_find_jobs_that_matter_to_anchor.
func (p *planned) markNeeded() {
	p.matters = true
	for _, l := range p.needs {
		if l.matters && !l.to.matters {
			l.to.markNeeded()
		}
	}
}

// drop removes a job, and with dependents also the jobs that fail without it.
func (t *transaction) drop(p *planned, dependents bool) {
	p.gone = true
	t.jobs = slices.DeleteFunc(t.jobs, func(o *planned) bool { return o == p })
	for _, l := range p.neededBy {
		if dependents && l.matters && !l.from.gone {
			t.drop(l.from, true)
		}
	}
}

// dropWhile drops a job for which the condition holds, until there is none.
func (t *transaction) dropWhile(dependents bool, is func(*planned) bool) {
	for {
		i := slices.IndexFunc(t.jobs, is)
		if i < 0 {
			return
		}
		t.drop(t.jobs[i], dependents)
	}
}

// minimise drops jobs that the request does not need, and that stop a unit or replace a job
// (transaction_minimize_impact).
func (t *transaction) minimise() {
	t.dropWhile(true, func(p *planned) bool {
		return !p.matters && (p.kind == jobStop && isUp(p.unit.active()) || p.unit.job != nil && conflict(p.kind, p.unit.job.kind))
	})
}

// dropRedundant drops the jobs of units that have nothing to do (transaction_drop_redundant).
func (t *transaction) dropRedundant() {
	t.dropWhile(false, func(p *planned) bool {
		return !slices.ContainsFunc(t.jobs, func(o *planned) bool { return o.unit == p.unit && t.changes(o) })
	})
}

// changes reports whether a job has something to do.
func (t *transaction) changes(p *planned) bool {
	switch now := p.unit.active(); {
	case p == t.anchor || p.unit.job != nil && conflict(p.kind, p.unit.job.kind):
		return true
	case p.kind == jobStart || p.kind == jobVerify:
		return now != "active"
	case p.kind == jobStop:
		return !isDown(now)
	}
	return true
}

// collect drops the jobs that no other job pulls in any more (transaction_collect_garbage).
func (t *transaction) collect() {
	t.dropWhile(true, func(p *planned) bool {
		return p != t.anchor && !slices.ContainsFunc(p.neededBy, func(l *link) bool { return !l.from.gone })
	})
}

// merge leaves one job for each unit (transaction_merge_jobs).
func (t *transaction) merge() error {
	for again := true; again; {
		again = false
		for _, p := range t.jobs {
			i := slices.IndexFunc(t.jobs, func(o *planned) bool { return o.unit == p.unit && conflict(o.kind, p.kind) })
			if i < 0 {
				continue
			}
			less := lesser(p, t.jobs[i])
			if less == nil {
				return fmt.Errorf("%s: %w", p.unit.Name, ErrConflicting)
			}
			t.drop(less, true)
			t.collect()
			again = true
			break
		}
	}
	for i := 0; i < len(t.jobs); i++ {
		for k := len(t.jobs) - 1; k > i; k-- {
			a, b := t.jobs[i], t.jobs[k]
			if a.unit != b.unit {
				continue
			}
			if b == t.anchor {
				a, b = b, a
				t.jobs[i] = a
			}
			a.kind, a.matters = merged(a.kind, b.kind), a.matters || b.matters
			t.jobs = slices.Delete(t.jobs, k, k+1)
		}
	}
	return nil
}

// lesser returns the job of two of a unit that can be dropped, nil if both are needed
// (delete_one_unmergeable_job).
func lesser(a, b *planned) *planned {
	if b.kind == jobStop {
		a, b = b, a
	}
	byConflict := slices.ContainsFunc(a.neededBy, func(l *link) bool { return l.conflict })
	switch {
	case a.matters && b.matters:
		return nil
	case a.matters, !b.matters && byConflict:
		return b
	}
	return a
}

// breakCycles drops jobs that wait for themselves, or returns an error if all of them are needed
// (transaction_verify_order).
func (t *transaction) breakCycles() error {
	for {
		cycle := t.cycle()
		if cycle == nil {
			return nil
		}
		i := slices.IndexFunc(t.jobs, func(p *planned) bool {
			return slices.Contains(cycle, p.unit) && !slices.ContainsFunc(t.jobs, func(o *planned) bool { return o.unit == p.unit && o.matters })
		})
		if i < 0 {
			return fmt.Errorf("%s: %w", cycle[0].Name, ErrCyclic)
		}
		t.drop(t.jobs[i], true)
		t.collect()
	}
}

// cycle returns units of the transaction whose jobs wait for each other, nil if there are none.
func (t *transaction) cycle() []*unit {
	stops := make(map[*unit]bool) // of the units with a job
	for _, p := range t.jobs {
		if _, known := stops[p.unit]; !known {
			stops[p.unit] = p.kind == jobStop || p.kind == jobRestart
		}
	}
	done := make(map[*unit]bool)
	var path []*unit
	var visit func(u *unit) []*unit
	visit = func(u *unit) []*unit {
		if done[u] {
			return nil
		}
		if i := slices.Index(path, u); i >= 0 {
			return slices.Clone(path[i:])
		}
		path = append(path, u)
		for _, r := range []relation{after, before} {
			for _, o := range u.edges[r] {
				other, has := stops[o]
				if !has || r == after && stops[u] || r == before && !other {
					continue
				}
				if c := visit(o); c != nil {
					return c
				}
			}
		}
		path = path[:len(path)-1]
		done[u] = true
		return nil
	}
	for _, p := range t.jobs {
		if c := visit(p.unit); c != nil {
			return c
		}
	}
	return nil
}
