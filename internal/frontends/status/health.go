package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// Health is the verdict on an account.
type Health struct {
	State   State  `json:"state"`
	Code    int    `json:"code"`    // see [State.Code]
	InSync  bool   `json:"in_sync"` // the GPUs, all that there should be, are as the profile in force says, or none is selected
	Summary string `json:"summary"` // a sentence
}

// Evaluate returns the account with its verdict, and with the problems added. It is the only
// function that judges a host.
func Evaluate(a Account) Account {
	j := judge{a: a, state: Healthy}
	j.a.Problems = slices.Clone(a.Problems)
	j.profile()
	j.gpus()
	j.clients()
	j.reserved()
	j.unconfined()
	j.units()
	for _, p := range a.Problems {
		j.worse(p.State)
	}
	j.a.Health.State, j.a.Health.Code = j.state, j.state.Code()
	j.a.Health.Summary = j.summary()
	return j.a
}

type judge struct {
	a       Account
	state   State
	caveats []string // what is wrong beside the GPUs' modes, in a few words
}

func (j *judge) worse(s State) {
	if s.rank() > j.state.rank() {
		j.state = s
	}
}

// addProblem adds a problem and its state.
func (j *judge) addProblem(s State, text, hint string) {
	j.worse(s)
	if text == "" || slices.ContainsFunc(j.a.Problems, func(p Problem) bool { return p.Text == text }) {
		return
	}
	j.a.Problems = append(j.a.Problems, Problem{s, text, hint})
}

// hidden reports whether a part could not be read.
func (a Account) hidden(part string) bool {
	return slices.ContainsFunc(a.Hidden, func(h Unavailable) bool { return h.Part == part })
}

// unit returns one of dcm's own units.
func (a Account) unit(name string) (Unit, bool) {
	i := slices.IndexFunc(a.Units, func(u Unit) bool { return u.Unit == name })
	if i < 0 {
		return Unit{}, false
	}
	return a.Units[i], true
}

// running reports whether a run is in progress. The saved state of a killed daemon may still
// say so.
func (a Account) running() bool {
	if u, ok := a.unit(unitname.Apply); ok && u.Active == "activating" {
		return true
	}
	return a.Daemon.Phase == runstate.Applying && !a.daemonDown()
}

// daemonDown reports whether dcm.service does not run, so that its saved state is outdated.
func (a Account) daemonDown() bool {
	u, ok := a.unit(unitname.Daemon)
	return ok && (u.Active == "inactive" || u.Active == "failed")
}

// as reports whether the GPUs match the effective profile. If only the daemon knows that
// profile, its state decides.
func (a Account) as() bool {
	managed, told := 0, 0
	for _, g := range a.GPUs {
		if !g.Managed() {
			continue
		}
		managed++
		if !g.Want.empty() {
			told++
		}
		if !g.AsWanted() {
			return false
		}
	}
	if told == 0 && a.Profile.Broken != "" {
		return a.Daemon.Phase == runstate.InSync
	}
	return managed > 0 && told == managed
}

// profile judges the configuration and the modes of the GPUs.
func (j *judge) profile() {
	a := &j.a
	const mend = "dcm check shows what is wrong; repair the file"
	a.Profile.Applied, a.Health.InSync = "", false
	switch {
	case a.Profile.InForce == "" && a.Profile.Broken != "":
		j.addProblem(Broken, a.Profile.Broken, mend)
		return
	case a.Profile.Broken != "":
		j.addProblem(Kept, a.Profile.Broken, "the last good configuration stays in force; "+mend)
		j.caveats = append(j.caveats, "the configuration on disk cannot be used")
	}
	switch {
	case a.Profile.InForce == "":
		j.worse(Idle)
		a.Health.InSync = true
	case a.hidden(partGPUs) && len(a.GPUs) == 0:
		j.worse(Unseen)
	case a.as():
		a.Profile.Applied = a.Profile.InForce
		a.Health.InSync = true
	case !a.running():
		j.off()
	}
	if a.running() {
		j.worse(Changing)
	}
	j.told()
}

// off judges GPUs that do not match, by the daemon's phase.
func (j *judge) off() {
	s, ok := offStates()[j.a.Daemon.Phase]
	if !ok || s == Changing { // which is judged by more than the daemon's word
		s = NotOn
	}
	j.worse(s)
}

// offStates maps the daemon's phase to the state of a host whose GPUs do not match the
// profile.
func offStates() map[runstate.Phase]State {
	return map[runstate.Phase]State{
		runstate.Applying: Changing, runstate.Waiting: Waiting, runstate.Rebooting: Rebooting, runstate.Drifted: Drifted, runstate.Stuck: Failed,
	}
}

// told adds the daemon's error while it still applies. An error about missing clients ends
// when they are back. A failure although the GPUs match is of another part of an apply, such
// as a reload of systemd.
func (j *judge) told() {
	e := j.a.Daemon.Error
	if e == nil {
		return
	}
	choosing := e.State == Waiting && j.a.Daemon.Phase == runstate.InSync
	if choosing {
		j.caveats = append(j.caveats, "not all reservations have their partitions yet")
	}
	phase := j.a.Daemon.Phase
	failed := (phase == runstate.Waiting || phase == runstate.Stuck) && j.a.Health.InSync && !j.a.daemonDown()
	if failed {
		j.caveats = append(j.caveats, "the last apply failed")
	}
	over := !choosing && !failed && j.a.Health.InSync && !j.a.running() && len(j.a.Daemon.Owed) == 0 && !j.a.hidden(partClients) &&
		!slices.ContainsFunc(j.a.Clients, Client.down)
	if !over {
		j.addProblem(e.State, e.Text, e.Hint)
	}
}

// gpus judges the number of GPUs, and pending modes.
func (j *judge) gpus() {
	a := &j.a
	if a.hidden(partGPUs) && len(a.GPUs) == 0 || a.running() {
		return // in a reload of the driver there are none
	}
	if n := a.Managed(); n < a.Expected.GPUs {
		a.Health.InSync = false
		j.addProblem(Missing, a.Expected.Text(n), a.Expected.hint(n))
	}
	for _, g := range a.GPUs {
		if g.Managed() && g.Pending != "" && g.Pending != g.Mode.Memory && g.Pending != g.Want.Memory {
			j.addProblem(Pending, fmt.Sprintf("%s was requested of %s, and comes with the next load of the driver", g.Pending, g.Address),
				"select a profile with that memory mode, or reboot before the driver is loaded again")
			j.caveats = append(j.caveats, g.Pending+" is pending")
			break // a request is of a whole hive
		}
	}
}

// Managed returns the number of GPUs that dcm manages.
func (a Account) Managed() int {
	n := 0
	for _, g := range a.GPUs {
		if g.Managed() {
			n++
		}
	}
	return n
}

// Text describes that only n GPUs exist.
func (e Expected) Text(n int) string {
	text := fmt.Sprintf("%d of %d GPUs", n, e.GPUs)
	if len(e.Missing) > 0 {
		text += ": not there is " + strings.Join(e.Missing, ", ")
	}
	return text
}

func (e Expected) hint(n int) string {
	if e.By == ByConfiguration {
		return "see the kernel's log (journalctl -k); if there are to be so few, set count under [gpu]"
	}
	return fmt.Sprintf("see the kernel's log (journalctl -k); if one was taken out, set count = %d under [gpu]", n)
}

// down reports whether a client is not in its previous state, or has failed.
func (c Client) down() bool { return !c.Back || c.Active == "failed" }

// went reports whether a client was stopped together with the oneshot that it is part of, and
// not separately. PID 1 forgets that an unreferenced unit ran, but the last restart is
// recorded.
func (a Account) went(c Client) bool {
	u, known := a.unit(unitname.Apply)
	ran := c.Ran || c.Before == "active"
	return known && u.Ran && u.Active == "inactive" && c.Load == "loaded" && c.Active == "inactive" && ran
}

// clients judges the client units. During a run they are stopped on purpose.
func (j *judge) clients() {
	a := j.a
	if a.running() {
		return
	}
	n := 0
	for _, c := range a.Clients {
		switch {
		case c.down():
			j.addProblem(Clients, fmt.Sprintf("%s is down: it is %s", c.Unit, Words(c.Active, c.Sub, c.Result)), "systemctl status "+c.Unit+" tells why; once repaired, start it")
		case a.went(c):
			j.addProblem(Clients, fmt.Sprintf("%s is down: it went with %s, which was stopped", c.Unit, unitname.Apply), "systemctl start "+unitname.Apply+" "+c.Unit)
		default:
			continue
		}
		n++
	}
	switch {
	case n == 1:
		j.caveats = append(j.caveats, "a client is down")
	case n > 1:
		j.caveats = append(j.caveats, fmt.Sprintf("%d clients are down", n))
	}
}

// Words returns a unit's state in the form of systemctl.
func Words(active, sub, result string) string {
	s := active
	if sub != "" {
		s += " (" + sub + ")"
	}
	if result != "" && result != "success" {
		s += ", result " + result
	}
	return s
}

// units judges dcm's own units, if a profile is selected.
func (j *judge) units() {
	if u, ok := j.a.unit(unitname.Reserve); ok && u.Active == "failed" {
		j.addProblem(Unmet, fmt.Sprintf("%s is %s: partitions may not be as they are reserved", u.Unit, Words(u.Active, u.Sub, u.Result)),
			"journalctl -u "+u.Unit+" tells why; systemctl restart "+unitname.Daemon+" tries again")
	}
	if j.a.Profile.InForce == "" && j.a.Profile.Broken == "" {
		return
	}
	for _, u := range j.a.Units {
		if slices.Contains([]string{"disabled", "masked", "masked-runtime"}, u.Enabled) {
			j.addProblem(Disabled, fmt.Sprintf("%s is %s: it is not started at boot", u.Unit, u.Enabled), "systemctl enable "+u.Unit)
			j.caveats = append(j.caveats, u.Unit+" is "+u.Enabled)
		}
	}
	if j.a.daemonDown() {
		u, _ := j.a.unit(unitname.Daemon)
		j.addProblem(Down, fmt.Sprintf("%s is %s: nobody watches the configuration and the GPUs", u.Unit, Words(u.Active, u.Sub, u.Result)),
			"systemctl start "+u.Unit)
		j.caveats = append(j.caveats, u.Unit+" does not run")
	}
}

// summary returns the verdict as a sentence.
func (j *judge) summary() string {
	p := j.a.Profile
	var s string
	switch {
	case p.InForce == "" && p.Broken != "":
		return "The configuration cannot be used"
	case j.a.running():
		return fmt.Sprintf("Profile %s is being put on the GPUs", p.InForce)
	case p.InForce == "":
		s = "No profile is selected; the GPUs are left alone"
	case j.a.hidden(partGPUs) && len(j.a.GPUs) == 0:
		s = fmt.Sprintf("Profile %s is selected; the GPUs cannot be seen", p.InForce)
	case p.Applied != "":
		s = fmt.Sprintf("Profile %s is on the GPUs", p.InForce)
		if n := j.a.Managed(); n < j.a.Expected.GPUs {
			s = fmt.Sprintf("Profile %s is on %d of %d GPUs", p.InForce, n, j.a.Expected.GPUs)
		}
	case j.a.Daemon.Phase == runstate.Rebooting:
		s = fmt.Sprintf("Rebooting, to put profile %s on the GPUs", p.InForce)
	default:
		s = fmt.Sprintf("Profile %s is not on the GPUs", p.InForce)
		if retry := j.a.Daemon.Retry; !retry.IsZero() && j.a.Daemon.Phase == runstate.Waiting {
			s += ", trying again at " + retry.Local().Format(time.TimeOnly)
		}
	}
	if len(j.caveats) > 0 {
		s += ", but " + strings.Join(j.caveats, ", ")
	}
	return s
}

// DownClients returns the clients that are not in their expected state, with their states.
func (a Account) DownClients() map[string]string {
	out := make(map[string]string)
	for _, c := range a.Clients {
		if c.down() || a.went(c) {
			out[c.Unit] = c.Active
		}
	}
	return out
}
