package pid1

// set changes the state of a unit (unit_notify).
func (m *Manager) set(u *unit, sub string) {
	was, now := u.active(), activeOf(sub)
	changed := u.sub != sub
	u.sub = sub
	if isDown(was) && !isDown(now) {
		u.times.InactiveExit = m.now
	}
	if !isDown(was) && isDown(now) {
		u.times.InactiveEnter = m.now
	}
	if was != "active" && now == "active" {
		u.times.ActiveEnter = m.now
	}
	if was == "active" && now != "active" {
		u.times.ActiveExit = m.now
	}
	if changed {
		m.env.Log(Event{Unit: u.Name, Sub: sub})
	}
	unexpected := true
	if u.job != nil {
		unexpected = m.progress(u.job, now)
	}
	if unexpected {
		m.retroact(u, was, now)
	}
	if was != now && now == "failed" {
		for _, o := range u.edges[onFailure] {
			m.queue(jobStart, o)
		}
	}
	if isDown(now) && !isDown(was) {
		m.upheld(u)
	}
	for _, s := range u.edges[triggeredBy] {
		m.triggered(s, u)
	}
}

// progress ends the job of a unit whose state has changed (unit_process_job). It reports whether the state is
// not that of the job.
func (m *Manager) progress(j *job, now string) (unexpected bool) {
	switch j.kind {
	case jobStart, jobVerify:
		switch {
		case now == "active":
			m.finish(j, "done", true)
		case j.running && now != "activating":
			unexpected = true
			switch now {
			case "failed":
				m.finish(j, "failed", true)
			case "inactive":
				m.finish(j, "done", true)
			}
		}
	default:
		switch {
		case isDown(now):
			m.finish(j, "done", true)
		case j.running && now != "deactivating":
			unexpected = true
			m.finish(j, "failed", true)
		}
	}
	return unexpected
}

// retroact starts or stops what depends on a unit that changed without a job.
func (m *Manager) retroact(u *unit, was, now string) {
	switch {
	case isDown(was) && isUp(now):
		for _, o := range u.all(requires, bindsTo, upholds, wants) {
			if !u.has(after, o) && !isUp(o.active()) {
				m.queue(jobStart, o)
			}
		}
		for _, o := range u.all(conflicts, conflictedBy) {
			if isUp(o.active()) {
				m.queue(jobStop, o)
			}
		}
	case isUp(was) && !isUp(now):
		for _, o := range u.all(boundBy) {
			if isUp(o.active()) {
				m.queue(jobStop, o)
			}
		}
	}
}

// upheld starts a unit that another one upholds (Upholds=).
func (m *Manager) upheld(u *unit) {
	if u.job != nil {
		return
	}
	for _, o := range u.edges[upheldBy] {
		if o.active() == "active" {
			m.queue(jobStart, u)
			return
		}
	}
}

// queue requests a job for PID 1 itself.
func (m *Manager) queue(kind jobKind, u *unit) { _, _ = m.transact(kind, u, "replace") }

// triggered is what a socket or path does when the unit that it starts has changed.
func (m *Manager) triggered(s, u *unit) {
	if s.active() != "active" {
		return
	}
	switch {
	case u.limitHit:
		s.result = "unit-start-limit-hit"
		if s.kind() == ".socket" {
			s.result = "service-start-limit-hit"
		}
		m.set(s, "failed")
	case u.job != nil:
	case isDown(u.active()):
		if s.sub == "running" {
			m.set(s, waitingOf(s))
		}
		m.poll(s)
	case u.active() == "active" && s.sub != "running":
		m.set(s, "running")
	}
}

func waitingOf(u *unit) string {
	if u.kind() == ".socket" {
		return "listening"
	}
	return "waiting"
}

// poll starts the unit of a socket with a connection, or of a path that exists.
func (m *Manager) poll(s *unit) {
	if s.sub != waitingOf(s) || len(s.edges[triggers]) == 0 {
		return
	}
	input := s.kind() == ".socket" && s.pendingInput || s.kind() == ".path" && m.env.Condition(s.Condition)
	if !input {
		return
	}
	m.set(s, "running")
	m.queue(jobStart, s.edges[triggers][0])
}
