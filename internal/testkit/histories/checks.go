package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"dcm/internal/engine/apply"
	"dcm/internal/engine/config"
	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
	"dcm/internal/testkit/pid1"
)

// Violation is a promise that a history breaks.
type Violation struct {
	Checker string // the promise, see [checks]
	Detail  string
	At      time.Duration
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (at %.1f s)", v.Checker, v.Detail, v.At.Seconds())
}

// kind is the violation without its numbers.
func (v Violation) kind() string {
	return v.Checker + strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, v.Detail)
}

// The checkers. The first word is the number of the guarantee in dcm-guarantees(7), or "liveness".
const (
	clientsComeBack = "1 the clients come back"
	noFalseLoss     = "1 a client that is as before is not lost"
	converges       = "3 the selected profile is applied, or the status has the reason"
	driverLoaded    = "3 the driver is loaded again, within a minute"
	oneAtATime      = "rolling: one GPU changes at a time"
	daemonRuns      = "liveness: the daemon runs"
	deadlineServed  = "no deadline passes unserved"
	stopStays       = "1 what an administrator has stopped stays stopped"
)

// checks observe a history. All methods are called with mu held.
type checks struct {
	w     *world
	found []Violation

	upFor     map[string]bool   // units that were active for a second
	stopped   map[string]string // by the administrator: the state in which a unit was stopped
	started   map[string]bool   // by the administrator, since the stop
	stoppedAt map[string]time.Duration
	ownFault  map[string]bool // failed by themselves, and are not restarted

	jobs  map[string]string // the result of the last job of a unit
	alone map[string]bool   // units that stopped while dcm did nothing, and had not to start them

	unloaded  time.Duration // since when no run loads the driver that is unloaded; 0: it is loaded
	waited    string        // what the daemon did in that time
	careful   bool          // the last change was requested with --rolling
	refused   bool          // and was refused
	restarted bool          // the daemon has ended since
}

func newChecks(w *world) *checks {
	c := &checks{w: w}
	c.rebooted()
	return c
}

func (c *checks) rebooted() {
	c.upFor, c.stopped, c.started, c.ownFault = make(map[string]bool), make(map[string]string), make(map[string]bool), make(map[string]bool)
	c.jobs, c.stoppedAt, c.alone = make(map[string]string), make(map[string]time.Duration), make(map[string]bool)
	c.unloaded, c.careful, c.refused = 0, false, false
}

func (c *checks) violated(checker, format string, args ...any) {
	v := Violation{checker, fmt.Sprintf(format, args...), c.w.now()}
	if !slices.ContainsFunc(c.found, func(o Violation) bool { return o.Checker == checker && o.Detail == v.Detail }) {
		c.found = append(c.found, v)
		c.w.note("VIOLATION", v.String())
	}
}

// event is a change of a unit's state.
func (c *checks) event(ev pid1.Event) {
	if ev.Sub == "" {
		c.jobs[ev.Unit] = ev.Result
	}
	if ev.Sub == "" || c.w.pid1 == nil {
		return
	}
	s := c.w.pid1.Status(ev.Unit)
	if s.Active != "active" && s.ActiveExit == c.w.pid1.Now() && s.ActiveExit-s.ActiveEnter >= time.Second {
		c.upFor[ev.Unit] = true
	}
	if s.Active == "active" {
		delete(c.ownFault, ev.Unit)
	}
	if s.Active != "active" && s.ActiveExit == c.w.pid1.Now() {
		c.alone[ev.Unit] = c.w.gpus.loaded() && !c.changing() && !c.owed(ev.Unit)
	}
	if s.Active == "active" && s.InactiveExit >= c.stoppedAt[ev.Unit] {
		c.activated(ev.Unit)
	}
}

// changing reports whether a run of dcm has begun or is about to.
func (c *checks) changing() bool {
	return slices.ContainsFunc(unitname.Runs(), func(run string) bool {
		s := c.w.pid1.Status(run)
		return s.Job != "" || s.MainPID != 0
	})
}

// owed reports whether the daemon has recorded that a change has stopped this invocation of the unit.
func (c *checks) owed(unit string) bool {
	s, invocation := c.w.files.state, c.w.pid1.Status(unit).Invocation
	return s != nil && slices.ContainsFunc(s.Pending, func(p runstate.PendingStart) bool { return p.Unit == unit && p.Invocation == invocation })
}

// start, stop and failed are actions of the administrator on a unit, and its own failure.
func (c *checks) start(unit string) { c.started[unit] = true }

// activated is called when a unit has become active. A unit that another one pulls in may start again.
func (c *checks) activated(unit string) {
	if c.stopped[unit] != "" && !c.started[unit] {
		pulled := false
		for _, r := range []string{"RequiredBy", "BoundBy", "WantedBy", "TriggeredBy"} {
			pulled = pulled || len(c.w.pid1.Related(unit, r)) > 0
		}
		if !pulled {
			require := ""
			if cfg, _ := c.w.effective(); cfg != nil && cfg.Require {
				require = ", with require"
			}
			c.violated(stopStays, "%s was started; it was stopped in state %s%s", unit, c.stopped[unit], require)
		}
	}
	delete(c.stopped, unit)
	delete(c.started, unit)
}

func (c *checks) stop(unit string) {
	for _, u := range c.with(unit) {
		if s := c.w.pid1.Status(u); isUp(s.Active) {
			c.stopped[u], c.stoppedAt[u] = s.Sub, c.w.now()
			delete(c.started, u)
		} else {
			c.ownFault[u] = true // PID 1 does not know of this stop
		}
	}
}

func isUp(active string) bool { return active == "active" || active == "activating" }

func (c *checks) failed(unit string) {
	if c.w.plan.byName[unit].Restart == "" {
		c.ownFault[unit] = true
	}
	for _, bound := range c.w.pid1.Related(unit, "BoundBy") {
		c.ownFault[bound] = true // also if the unit comes back
		c.failed(bound)
	}
}

// with returns a unit and those that need it.
func (c *checks) with(unit string) []string {
	out := []string{unit}
	for i := 0; i < len(out); i++ {
		for _, r := range []string{"RequiredBy", "BoundBy"} {
			for _, o := range c.w.pid1.Related(out[i], r) {
				if !slices.Contains(out, o) && !strings.HasPrefix(o, "dcm") {
					out = append(out, o)
				}
			}
		}
	}
	return out
}

// commanded is a new request of the administrator. A change with --rolling is checked if nothing else is
// requested when it begins.
func (c *checks) commanded(rolling bool) {
	w := c.w
	resting := w.files.state != nil && w.files.state.Phase != runstate.Applying && w.files.state.Phase != runstate.Starting &&
		(w.files.state.Phase != runstate.Rolling && w.files.state.Phase != runstate.Waiting || c.careful)
	d := w.theDaemon()
	edited := d == nil || d.events.edited
	asking := w.alive(func(p *process) bool { return p.command && !p.rolling })
	c.careful = rolling && resting && !edited && asking == nil && len(c.downSingles()) <= 1
	c.refused, c.restarted = false, false
}

// saved is a state that the daemon has published.
func (c *checks) saved(s runstate.State) {
	if s.Error == nil {
		return
	}
	if strings.Contains(s.Error.Text, "one GPU after another") {
		c.refused = true
	}
	if !strings.HasPrefix(s.Error.Text, "not back") {
		return
	}
	for _, one := range s.Clients {
		if !one.Back && one.Before == one.Now && one.Before == "activating" {
			c.violated(noFalseLoss, "%s was %s and is %s", one.Unit, one.Before, one.Now)
		}
	}
}

// observe is called after each effect.
func (c *checks) observe() {
	w := c.w
	switch {
	case w.gpus.loaded() || w.alive(func(p *process) bool { return kindOf(p.program) == "run" }) != nil:
		c.unloadedEnds()
		c.unloaded = 0
	case c.unloaded == 0:
		c.unloaded, c.waited = w.now(), ""
	case w.now()-c.unloaded > 5*time.Second && c.waited == "":
		c.waited = c.doing()
	}
	if c.careful {
		c.rolling()
	}
}

// unloadedEnds checks how long no run has loaded the driver.
func (c *checks) unloadedEnds() {
	const limit = time.Minute
	if c.unloaded == 0 || c.w.now()-c.unloaded < limit || c.w.gpus.broken {
		return
	}
	if c.waited == "" {
		c.waited = c.doing()
	}
	c.violated(driverLoaded, "it was unloaded for %.0f s, while %s", (c.w.now() - c.unloaded).Seconds(), c.waited)
}

// doing describes what the daemon does.
func (c *checks) doing() string {
	s := c.w.files.state
	switch {
	case s == nil || c.w.theDaemon() == nil:
		return "the daemon was down"
	case s.Phase == runstate.Applying:
		return "the daemon waited for units"
	case s.Phase == runstate.Waiting:
		return "the daemon delayed its next attempt"
	}
	return "the daemon was in phase " + string(s.Phase)
}

// downSingles returns the clients of single GPUs that are down.
func (c *checks) downSingles() (down []string) {
	for _, one := range c.w.plan.units {
		if one.gpus != nil && !c.w.files.options[one.Name] && c.intended(one.Name) && c.w.pid1.Status(one.Name).Active != "active" {
			down = append(down, one.Name)
		}
	}
	return down
}

// rolling checks that one client of single GPUs is down at a time.
func (c *checks) rolling() {
	down := c.downSingles()
	if len(down) > 1 {
		c.careful = false
		why := "no caller"
		if s := c.w.files.state; s != nil && s.Asked != nil {
			why, _, _ = strings.Cut(s.Asked.Why, ",")
		}
		switch {
		case c.refused:
			why += ", after it was refused"
		case !c.w.gpus.present(c.w.gpus.addresses()):
			why += ", while a GPU is away"
		case c.restarted:
			why += ", after the daemon has ended"
		}
		c.violated(oneAtATime, "%d clients are down; the run was requested by: %s", len(down), why)
	}
}

// intended reports whether a unit has been up, and only dcm stopped it or what it needs.
func (c *checks) intended(unit string) bool {
	if !c.upFor[unit] || c.stopped[unit] != "" || c.ownFault[unit] {
		return false
	}
	if one, ok := c.w.plan.byName[unit]; !ok || one.broken {
		return false
	}
	m := c.w.pid1
	for _, need := range slices.Concat(m.Related(unit, "Requires"), m.Related(unit, "BindsTo")) {
		if !strings.HasPrefix(need, "dcm") && !c.intended(need) && m.Status(need).Active != "active" {
			return false
		}
	}
	return true
}

// named reports whether the daemon's error has the text.
func (c *checks) named(text string) bool {
	s := c.w.files.state
	return s != nil && s.Error != nil && strings.Contains(s.Error.Text, text)
}

// final checks the host some time after the last fault.
func (c *checks) final() {
	w := c.w
	c.unloadedEnds()
	c.unserved()
	if w.pid1.Status("dcm.service").Active != "active" {
		c.violated(daemonRuns, "dcm.service is %s", w.pid1.Status("dcm.service").Sub)
		return
	}
	cfg, _ := w.effective()
	// With require, and without a driver that loads, clients stay down while the status has the reason.
	kept := cfg != nil && cfg.Require && w.files.state != nil && w.files.state.Phase != runstate.InSync && c.named("") && !c.named("are down") && !c.refused ||
		w.gpus.broken && !w.gpus.loaded() && c.named("")
	for _, one := range w.plan.units {
		if s := w.pid1.Status(one.Name); !kept && !(c.alone[one.Name] && c.jobs[one.Name] == "dependency") && c.intended(one.Name) && s.Active != "active" && !(one.Type == "notify" && s.Active == "activating") {
			why := ""
			switch {
			case c.named("these clients are down"), c.named("these units are down"):
				why = "; the change waits for units that it keeps down"
			case c.refused:
				why = "; a refused --rolling ended the attempts"
			case c.jobs[one.Name] == "dependency":
				why = "; its start job ended with dependency"
			case c.jobs[one.Name] == "assert":
				why = "; its start job ended with assert"
			}
			c.violated(clientsComeBack, "%s is %s (%s, %s)%s", one.Name, s.Active, s.Sub, s.Result, why)
		}
	}
	if cfg == nil || cfg.Selected == "" || cfg.Drift == config.Report {
		return
	}
	d, err := apply.Compare(w.gpus.devices(), cfg.Profile)
	state := w.files.state
	named := state != nil && (state.Error != nil && state.Phase != runstate.InSync || state.Phase == runstate.Rolling || state.Phase == runstate.Applying)
	if (err != nil || len(d.Steps) > 0) && !named {
		c.violated(converges, "profile %s is selected, the GPUs are %v", cfg.Selected, w.gpus.shapes())
	}
}
