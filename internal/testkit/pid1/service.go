package pid1

import (
	"fmt"
	"slices"
	"time"
)

// Signals with which a service ends by itself.
const (
	sigKill = 9
	sigTerm = 15
)

// start starts a unit (unit_start). It returns "" if the start is under way or done, "again" if the job has to
// wait, and otherwise the result of the job.
func (m *Manager) start(u *unit) string {
	switch {
	case u.active() == "active":
		return "done"
	case u.sub == "auto-restart", u.active() == "deactivating":
		return "again"
	case u.active() == "activating" && u.sub != "auto-restart-queued":
		return ""
	case m.limited(u):
		u.limitHit = true
		m.dead(u, "start-limit-hit", false)
		return "failed"
	}
	u.times.Condition, u.times.ConditionMet = m.now, u.kind() == ".path" || u.Condition == "" || m.env.Condition(u.Condition)
	if !u.times.ConditionMet {
		return "done"
	}
	u.times.Assert, u.times.AssertMet = m.now, (u.Assert == "" || m.env.Condition(u.Assert)) && (u.dropin.Assert == "" || m.env.Condition(u.dropin.Assert))
	if !u.times.AssertMet {
		return "assert"
	}
	for _, o := range u.edges[bindsTo] {
		if u.has(after, o) && o.active() != "active" {
			return "dependency"
		}
	}
	if s := u.edges[triggers]; u.kind() == ".socket" && len(s) > 0 && !isDown(s[0].active()) && !s[0].inAutoRestart() {
		return "failed" // the service of the socket is active
	}
	m.begin(u)
	return ""
}

// limited counts a start, and reports whether the start limit is hit (unit_test_start_limit).
func (m *Manager) limited(u *unit) bool {
	if u.StartLimitInterval == Forever {
		return false
	}
	u.starts = slices.DeleteFunc(u.starts, func(t time.Duration) bool { return m.now-t >= u.StartLimitInterval })
	if len(u.starts) >= u.StartLimitBurst {
		return true
	}
	u.starts = append(u.starts, m.now)
	return false
}

// begin starts a unit that is down.
func (m *Manager) begin(u *unit) {
	m.ids++
	u.invocation = fmt.Sprintf("%032x", m.ids)
	u.result, u.failed, u.limitHit, u.forbid, u.deadline = "success", Exec{}, false, false, 0
	if u.flush {
		u.restarts, u.flush = 0, false
	}
	if u.kind() != ".service" {
		switch u.kind() {
		case ".socket", ".path", ".timer":
			m.set(u, waitingOf(u))
			m.poll(u)
		default:
			m.set(u, "active")
		}
		return
	}
	m.limit(u, u.TimeoutStart)
	u.pre = 0
	m.next(u)
}

// next starts the next command of a service that is starting.
func (m *Manager) next(u *unit) {
	if u.pre < len(u.StartPre) {
		u.control = m.env.Spawn(u.Name, u.StartPre[u.pre], u.invocation)
		if u.sub != "start-pre" {
			m.set(u, "start-pre")
		}
		return
	}
	u.main = m.env.Spawn(u.Name, u.File.Start, u.invocation)
	if u.Type == "notify" || u.oneshot() {
		m.set(u, "start")
		return
	}
	u.deadline = 0
	m.set(u, "running")
}

func (m *Manager) limit(u *unit, d time.Duration) {
	u.deadline = 0
	if d != Forever {
		u.deadline = m.now + d
	}
}

// stop stops a unit that is not down (unit_stop).
func (m *Manager) stop(u *unit) {
	switch {
	case u.kind() != ".service" || u.inAutoRestart():
		u.flush = u.flush || u.sub == "auto-restart-queued"
		u.deadline = 0
		m.set(u, "dead")
	case u.active() == "deactivating":
	default:
		u.forbid = true
		m.terminate(u)
	}
}

// terminate sends SIGTERM to the processes of a service.
func (m *Manager) terminate(u *unit) {
	if u.main == 0 && u.control == 0 {
		m.dead(u, "success", true)
		return
	}
	m.limit(u, u.TimeoutStop)
	m.signal(u, false)
	m.set(u, "stop-sigterm")
}

func (m *Manager) signal(u *unit, kill bool) {
	for _, pid := range []int{u.main, u.control} {
		if pid != 0 {
			m.env.Signal(pid, kill)
		}
	}
}

// due handles the time limit of a unit's state.
func (m *Manager) due(u *unit) {
	switch u.sub {
	case "auto-restart":
		u.restarts++
		if m.Version < 254 {
			m.queue(jobRestart, u)
			return
		}
		m.set(u, "auto-restart-queued") // also if its job fails with dependency: then it stays so
		_, _ = m.transact(jobStart, u, "restart-dependencies")
	case "start-pre", "start":
		u.result = "timeout"
		m.terminate(u)
	case "stop-sigterm":
		u.result = "timeout"
		m.signal(u, true)
		m.set(u, "stop-sigkill")
	}
}

// exited handles the end of a process (service_sigchld_event).
func (m *Manager) exited(u *unit, pid, status, sig int) {
	result := "success"
	clean := status == 0 && sig == 0 || (sig == sigTerm || sig == 1 || sig == 2 || sig == 13) && !u.oneshot()
	switch {
	case clean:
	case sig != 0:
		result = "signal"
	default:
		result = "exit-code"
	}
	switch pid {
	case u.control:
		u.control = 0
		m.preExited(u, result, status, sig)
	case u.main:
		u.main, u.times.MainExit = 0, m.now
		m.mainExited(u, result, status, sig)
	}
}

func (m *Manager) preExited(u *unit, result string, status, sig int) {
	if result != "success" {
		u.failed = Exec{"ExecStartPre", u.StartPre[u.pre], sig != 0, max(status, sig)}
	}
	switch {
	case u.active() == "deactivating":
		m.dead(u, result, true)
	case result != "success":
		m.restartable(u, result, status)
	default:
		u.pre++
		m.next(u)
	}
}

func (m *Manager) mainExited(u *unit, result string, status, sig int) {
	if result != "success" {
		u.failed = Exec{"ExecStart", u.File.Start, sig != 0, max(status, sig)}
	}
	switch {
	case u.sub == "start" && u.oneshot() && result == "success" && u.RemainAfterExit:
		u.deadline = 0
		m.set(u, "exited")
	case u.sub == "start" && u.Type == "notify" && result == "success":
		m.restartable(u, "protocol", status)
	default:
		m.restartable(u, result, status)
	}
}

func (m *Manager) restartable(u *unit, result string, status int) {
	m.dead(u, result, !slices.Contains(u.RestartPrevent, status) || result != "exit-code")
}

// dead ends a service (service_enter_dead).
func (m *Manager) dead(u *unit, result string, mayRestart bool) {
	if u.result == "success" {
		u.result = result
	}
	u.deadline = 0
	if u.kind() != ".service" {
		m.set(u, downAs(u))
		return
	}
	again := mayRestart && !u.forbid && u.restartsAfter()
	u.flush = !again
	m.set(u, downAs(u))
	if again && isDown(u.active()) { // no trigger has started it meanwhile
		m.limit(u, u.RestartDelay)
		m.set(u, "auto-restart")
	}
}

func downAs(u *unit) string {
	if u.result == "success" {
		return "dead"
	}
	return "failed"
}

// restartsAfter reports whether Restart= applies to the result (service_shall_restart).
func (u *unit) restartsAfter() bool {
	switch u.Restart {
	case "always":
		return true
	case "on-success":
		return u.result == "success"
	case "on-failure":
		return u.result != "success"
	case "on-abnormal":
		return u.result == "signal" || u.result == "timeout" || u.result == "watchdog"
	}
	return false
}
