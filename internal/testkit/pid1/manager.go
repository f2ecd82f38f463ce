package pid1

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of a request for a job, as systemd returns them on D-Bus.
var (
	ErrNoSuchUnit  = errors.New("NoSuchUnit")
	ErrOnlyByDep   = errors.New("OnlyByDependency")
	ErrCyclic      = errors.New("TransactionOrderIsCyclic")
	ErrConflicting = errors.New("TransactionJobsConflicting")
	ErrDestructive = errors.New("TransactionIsDestructive")
)

// Env is what the model asks of its caller. No method may call the manager.
type Env interface {
	// Spawn starts a program for a unit, and returns its PID.
	Spawn(unit, program, invocation string) (pid int)
	// Signal sends SIGTERM, or SIGKILL, to a process.
	Signal(pid int, kill bool)
	// Condition returns whether a condition, an assertion or the path of a path unit is true.
	Condition(text string) bool
	// Shuffle puts jobs of a transaction without an order between them in an order.
	Shuffle(n int, swap func(i, j int))
	// Log receives each state of a unit and each end of a job.
	Log(Event)
}

// Event is a change of a unit's state, or the end of a job.
type Event struct {
	Unit   string
	Sub    string // "" for the end of a job
	Job    uint64
	Type   string // of the job
	Result string // of the job: "done", "failed", "dependency", "canceled", "assert", …
}

// Manager is PID 1.
type Manager struct {
	Version int // of systemd, which differs from 254 on; 0: 252

	env   Env
	now   time.Duration
	units map[string]*unit
	names []string
	jobs  []*job // installed, in the order of their numbers
	last  uint64
	ids   uint64 // invocations
}

// New returns PID 1 with units that are all inactive.
func New(env Env, files []File) *Manager {
	m := &Manager{env: env, units: make(map[string]*unit)}
	m.Load(files, nil)
	return m
}

// Load replaces the unit files, as a daemon-reload does. A unit without a file keeps its state, and is not
// started again.
func (m *Manager) Load(files []File, dropins map[string]Dropin) {
	for _, f := range files {
		u := m.units[f.Name]
		if u == nil {
			u = &unit{sub: "dead", result: "success", rank: slices.Index(ranks, f.kind())}
			m.units[f.Name] = u
			m.names = append(m.names, f.Name)
		}
		u.File = f.withDefaults()
	}
	slices.Sort(m.names)
	for name, u := range m.units {
		u.dropin = dropins[name]
	}
	m.link()
	m.dispatch()
}

// Now returns the time of the last call.
func (m *Manager) Now() time.Duration { return m.now }

// At sets the time before a call.
func (m *Manager) At(now time.Duration) { m.now = max(m.now, now) }

// Units returns the names of all units, sorted.
func (m *Manager) Units() []string { return m.names }

// Status returns the state of a unit.
func (m *Manager) Status(name string) Status {
	u := m.units[name]
	if u == nil {
		return Status{Name: name, Load: "not-found", Active: "inactive", Sub: "dead", Result: "success"}
	}
	s := Status{Name: name, Load: "loaded", Active: u.active(), Sub: u.sub, Result: u.result, Invocation: u.invocation,
		Restarts: u.restarts, MainPID: u.main, LimitHit: u.limitHit, Failed: u.failed, Times: u.times, File: u.File}
	if u.job != nil {
		s.Job = u.job.kind.String()
	}
	return s
}

// Related returns the names of the units with a dependency, such as "RequiredBy" or "After", in order.
func (m *Manager) Related(name, property string) []string {
	r, ok := map[string]relation{
		"Requires": requires, "Requisite": requisite, "BindsTo": bindsTo, "Wants": wants, "PartOf": partOf, "After": after, "Before": before,
		"RequiredBy": requiredBy, "RequisiteOf": requisiteOf, "BoundBy": boundBy, "WantedBy": wantedBy, "ConsistsOf": consistsOf, "TriggeredBy": triggeredBy,
	}[property]
	if !ok {
		panic("pid1: no property " + property)
	}
	var out []string
	if u := m.units[name]; u != nil {
		for _, o := range u.edges[r] {
			out = append(out, o.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Next returns when the next time limit or automatic restart is due.
func (m *Manager) Next() (at time.Duration, ok bool) {
	for _, name := range m.names {
		if d := m.units[name].deadline; d > 0 && (!ok || d < at) {
			at, ok = d, true
		}
	}
	return at, ok
}

// Advance handles what is due.
func (m *Manager) Advance() {
	for _, name := range m.names {
		if u := m.units[name]; u.deadline > 0 && u.deadline <= m.now {
			u.deadline = 0
			m.due(u)
		}
	}
	m.dispatch()
}

// Request queues a job: "start", "stop", "restart" or "try-restart". mode is "replace" or "fail".
func (m *Manager) Request(kind, name, mode string) (id uint64, err error) {
	u := m.units[name]
	if u == nil {
		return 0, fmt.Errorf("%s: %w", name, ErrNoSuchUnit)
	}
	k, ok := map[string]jobKind{"start": jobStart, "stop": jobStop, "restart": jobRestart, "try-restart": jobTryRestart}[kind]
	if !ok {
		return 0, fmt.Errorf("no job of type %s", kind)
	}
	j, err := m.transact(k, u, mode)
	if j != nil {
		id = j.id
	}
	m.dispatch()
	return id, err
}

// HasJob reports whether a job has not ended.
func (m *Manager) HasJob(id uint64) bool {
	return slices.ContainsFunc(m.jobs, func(j *job) bool { return j.id == id })
}

// ResetFailed clears the failure and the start counter of a unit.
func (m *Manager) ResetFailed(name string) {
	u := m.units[name]
	if u == nil {
		return
	}
	u.starts, u.limitHit, u.restarts = nil, false, 0
	if u.sub == "failed" {
		u.result = "success"
		m.set(u, "dead")
	}
	m.dispatch()
}

// Ready is READY=1 of a service of Type=notify.
func (m *Manager) Ready(name string) {
	if u := m.units[name]; u != nil && u.Type == "notify" && u.sub == "start" {
		m.set(u, "running")
	}
	m.dispatch()
}

// Exited reports the end of a process. sig is 0, or the number of the signal that ended it.
func (m *Manager) Exited(name string, pid, status, sig int) {
	if u := m.units[name]; u != nil {
		m.exited(u, pid, status, sig)
	}
	m.dispatch()
}

// Connect is a connection to a socket, which stays until a service accepts it, see [Manager.Accept].
func (m *Manager) Connect(name string) {
	if u := m.units[name]; u != nil {
		u.pendingInput = true
		m.poll(u)
	}
	m.dispatch()
}

// Accept takes the connections of the sockets of a running service.
func (m *Manager) Accept(service string) {
	if u := m.units[service]; u != nil {
		for _, s := range u.edges[triggeredBy] {
			s.pendingInput = false
		}
	}
}

// Recheck makes the waiting path units look at their paths.
func (m *Manager) Recheck() {
	for _, name := range m.names {
		m.poll(m.units[name])
	}
	m.dispatch()
}
