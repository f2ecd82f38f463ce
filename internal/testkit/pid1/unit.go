package pid1

import (
	"path"
	"slices"
	"time"
)

// Forever disables a time limit of a [File].
const Forever = time.Duration(-1)

// File is a unit file. A zero field has systemd's default.
type File struct {
	Name string

	// Of a service.
	Type            string   // "simple", "notify" or "oneshot"; "": simple
	RemainAfterExit bool     // of a oneshot
	StartPre        []string // programs of ExecStartPre=
	Start           string   // program of ExecStart=
	Restart         string   // "no", "on-failure", "on-success", "on-abnormal", "always"
	RestartPrevent  []int    // RestartPreventExitStatus=
	RestartDelay    time.Duration
	TimeoutStart    time.Duration
	TimeoutStop     time.Duration

	StartLimitInterval time.Duration
	StartLimitBurst    int

	Condition, Assert string // see [Env.Condition]; "": none

	Requires, Requisite, BindsTo, Wants, Upholds []string
	PartOf, Conflicts, OnFailure, After, Before  []string

	Triggers string // of a socket, path or timer: the unit that it starts
}

// Dropin has the lines that a drop-in adds to a unit.
type Dropin struct {
	Requires, PartOf, After []string
	Assert                  string // AssertPathExists=, in addition to that of the unit
}

func (f File) kind() string { return path.Ext(f.Name) }

// ranks are the types in the order of enum UnitType.
var ranks = []string{".service", ".mount", ".swap", ".socket", ".target", ".device", ".automount", ".timer", ".path", ".slice", ".scope"}

func (f File) oneshot() bool { return f.Type == "oneshot" }

func (f File) withDefaults() File {
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	set(&f.RestartDelay, 100*time.Millisecond)
	if f.oneshot() {
		set(&f.TimeoutStart, Forever)
	}
	set(&f.TimeoutStart, 90*time.Second)
	set(&f.TimeoutStop, 90*time.Second)
	set(&f.StartLimitInterval, 10*time.Second)
	if f.StartLimitBurst == 0 {
		f.StartLimitBurst = 5
	}
	return f
}

// unit is a loaded unit.
type unit struct {
	File
	dropin Dropin
	edges  map[relation][]*unit // in the order of names
	rank   int                  // of the unit's type: the highest runs first

	sub        string // SubState
	result     string
	invocation string
	restarts   uint32
	job        *job

	pre          int // index of the running ExecStartPre=
	control      int // PID of an ExecStartPre=
	main         int // PID of ExecStart=
	failed       Exec
	deadline     time.Duration // of the present state; 0: none
	forbid       bool          // no automatic restart: it was stopped
	flush        bool          // the next start resets the count of restarts
	starts       []time.Duration
	limitHit     bool
	pendingInput bool // a socket has a connection that no service has accepted

	times Times
}

// Exec is a command of a service that failed.
type Exec struct {
	Directive, Program string
	Signal             bool
	Status             int
}

// Times are when a unit changed its state, since boot; 0 for never.
type Times struct {
	InactiveExit, ActiveEnter, ActiveExit, InactiveEnter time.Duration

	Condition, Assert time.Duration // when they were checked
	ConditionMet      bool
	AssertMet         bool
	MainExit          time.Duration
}

// Status is the state of a unit.
type Status struct {
	Name, Load, Active, Sub, Result string
	Invocation                      string
	Restarts                        uint32
	MainPID                         int
	Job                             string // type of the job; "" for none
	LimitHit                        bool   // its start limit was hit
	Failed                          Exec
	Times
	File
}

// activeOf returns the ActiveState of a SubState.
func activeOf(sub string) string {
	switch sub {
	case "dead":
		return "inactive"
	case "failed":
		return "failed"
	case "start-pre", "start", "auto-restart", "auto-restart-queued":
		return "activating"
	case "stop-sigterm", "stop-sigkill":
		return "deactivating"
	}
	return "active"
}

// inAutoRestart reports whether a service waits for its automatic restart.
func (u *unit) inAutoRestart() bool { return u.sub == "auto-restart" || u.sub == "auto-restart-queued" }

func (u *unit) active() string { return activeOf(u.sub) }

func isDown(active string) bool { return active == "inactive" || active == "failed" }

func isUp(active string) bool { return active == "active" || active == "activating" }

// relation is a dependency of units. The second half are the reverses of the first.
type relation int

const (
	requires relation = iota
	requisite
	bindsTo
	wants
	upholds
	partOf
	conflicts
	onFailure
	after
	before
	triggers

	requiredBy
	requisiteOf
	boundBy
	wantedBy
	upheldBy
	consistsOf
	conflictedBy
	onFailureOf
	_ // the reverse of after is before
	_
	triggeredBy
)

func (r relation) reverse() relation {
	switch {
	case r == after:
		return before
	case r == before:
		return after
	case r < requiredBy:
		return r + requiredBy
	}
	return r - requiredBy
}

// link sets the dependencies between all units.
func (m *Manager) link() {
	for _, u := range m.units {
		u.edges = make(map[relation][]*unit)
	}
	for _, name := range m.names {
		u := m.units[name]
		for _, l := range []struct {
			of    relation
			names []string
		}{
			{requires, slices.Concat(u.Requires, u.dropin.Requires)}, {requisite, u.Requisite}, {bindsTo, u.BindsTo}, {wants, u.Wants},
			{upholds, u.Upholds}, {partOf, slices.Concat(u.PartOf, u.dropin.PartOf)}, {conflicts, u.Conflicts}, {onFailure, u.OnFailure},
			{after, slices.Concat(u.After, u.dropin.After)}, {before, u.Before}, {triggers, []string{u.Triggers}},
		} {
			for _, other := range l.names {
				if o := m.units[other]; o != nil && o != u {
					u.relate(l.of, o)
					o.relate(l.of.reverse(), u)
				}
			}
		}
		if s := m.units[u.Triggers]; s != nil { // implicit, see systemd.socket(5)
			u.relate(before, s)
			s.relate(after, u)
		}
	}
}

func (u *unit) relate(r relation, other *unit) {
	if !slices.Contains(u.edges[r], other) {
		u.edges[r] = append(u.edges[r], other)
	}
}

func (u *unit) all(rs ...relation) []*unit {
	var out []*unit
	for _, r := range rs {
		for _, o := range u.edges[r] {
			if !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}

func (u *unit) has(r relation, other *unit) bool { return slices.Contains(u.edges[r], other) }
