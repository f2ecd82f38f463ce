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

// Evaluate returns the account with its verdict, and with what is wrong among the
// problems. It is the only place where it is decided how a host is.
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

// addProblem notes a state, and what is to be said of it.
func (j *judge) addProblem(s State, text, cure string) {
	j.worse(s)
	if text == "" || slices.ContainsFunc(j.a.Problems, func(p Problem) bool { return p.Text == text }) {
		return
	}
	j.a.Problems = append(j.a.Problems, Problem{s, text, cure})
}

// hidden reports whether a part could not be looked at.
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

// running reports whether somebody is at work on the GPUs now. A daemon that was
// killed at it has left its last word.
func (a Account) running() bool {
	if u, ok := a.unit(unitname.Apply); ok && u.Active == "activating" {
		return true
	}
	return a.Daemon.Phase == runstate.Applying && !a.daemonDown()
}

// daemonDown reports whether dcm.service does not run, so that its state is an old one.
func (a Account) daemonDown() bool {
	u, ok := a.unit(unitname.Daemon)
	return ok && (u.Active == "inactive" || u.Active == "failed")
}

// as reports whether the GPUs are as the profile in force says. Where only the
// daemon knows what that profile is, its word has to do.
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

// profile judges the configuration and what the GPUs are seen to have.
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

// off judges GPUs that are not as they should be by what the daemon is at.
func (j *judge) off() {
	s, ok := offStates()[j.a.Daemon.Phase]
	if !ok || s == Changing { // which is judged by more than the daemon's word
		s = NotOn
	}
	j.worse(s)
}

// offStates are those of a host whose GPUs are not as they should be, by what the
// daemon is at.
func offStates() map[runstate.Phase]State {
	return map[runstate.Phase]State{
		runstate.Applying: Changing, runstate.Waiting: Waiting, runstate.Rebooting: Rebooting, runstate.Drifted: Drifted, runstate.Stuck: Failed,
	}
}

// told takes over what the daemon says is wrong, as long as it is so. That clients
// were not back is over when they are. A failure while the GPUs are as they should be is one
// of the other things that an apply does, such as a reload of systemd.
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
		j.addProblem(e.State, e.Text, e.Cure)
	}
}

// gpus judges how many there are, and what is pending.
func (j *judge) gpus() {
	a := &j.a
	if a.hidden(partGPUs) && len(a.GPUs) == 0 || a.running() {
		return // in a reload of the driver there are none
	}
	if n := a.Managed(); n < a.Expected.GPUs {
		a.Health.InSync = false
		j.addProblem(Missing, a.Expected.Text(n), a.Expected.cure(n))
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

// Managed returns how many GPUs there are to manage.
func (a Account) Managed() int {
	n := 0
	for _, g := range a.GPUs {
		if g.Managed() {
			n++
		}
	}
	return n
}

// Text says that there are only n.
func (e Expected) Text(n int) string {
	text := fmt.Sprintf("%d of %d GPUs", n, e.GPUs)
	if len(e.Missing) > 0 {
		text += ": not there is " + strings.Join(e.Missing, ", ")
	}
	return text
}

func (e Expected) cure(n int) string {
	if e.By == ByConfiguration {
		return "see the kernel's log (journalctl -k); if there are to be so few, set count under [gpu]"
	}
	return fmt.Sprintf("see the kernel's log (journalctl -k); if one was taken out, set count = %d under [gpu]", n)
}

// down reports whether a client is not as it was, or has failed.
func (c Client) down() bool { return !c.Back || c.Active == "failed" }

// went reports whether a client was stopped with the oneshot, of which it is part, and
// not by itself. PID 1 forgets that a unit ran which nothing refers to; the last
// restart is known all the same.
func (a Account) went(c Client) bool {
	u, known := a.unit(unitname.Apply)
	ran := c.Ran || c.Before == "active"
	return known && u.Ran && u.Active == "inactive" && c.Load == "loaded" && c.Active == "inactive" && ran
}

// clients judges the units that use the GPUs. During a run they are down because
// they have to be.
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

// Words is a unit's state as systemctl puts it.
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

// units judges dcm's own units, where a profile is to be kept.
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

// summary is the verdict as a sentence.
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

// DownClients are the clients that are not as they should be, with their states.
func (a Account) DownClients() map[string]string {
	out := make(map[string]string)
	for _, c := range a.Clients {
		if c.down() || a.went(c) {
			out[c.Unit] = c.Active
		}
	}
	return out
}
