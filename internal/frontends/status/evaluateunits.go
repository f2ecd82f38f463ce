package status

import (
	"fmt"
	"slices"

	"dcm/internal/linux/unitname"
)

// clients evaluates the client units. During a run they are stopped on purpose.
func (j *evaluator) clients() {
	a := j.a
	if a.Running() {
		return
	}
	n := 0
	for _, c := range a.Clients {
		switch {
		case c.down():
			j.addProblem(Clients, fmt.Sprintf("%s is down: it is %s", c.Unit, Words(c.Active, c.Sub, c.Result)), "systemctl status "+c.Unit+" shows why; start it after the repair")
		case a.stoppedWithApply(c):
			j.addProblem(Clients, fmt.Sprintf("%s is down: it was stopped together with %s", c.Unit, unitname.Apply), "systemctl start "+unitname.Apply+" "+c.Unit)
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

// units evaluates the units of dcm, if a profile is selected.
func (j *evaluator) units() {
	if u, ok := j.a.unit(unitname.Reserve); ok && u.Active == "failed" {
		j.addProblem(Unmet, fmt.Sprintf("%s is %s: reservations may lack their partitions", u.Unit, Words(u.Active, u.Sub, u.Result)),
			"journalctl -u "+u.Unit+" shows why; systemctl restart "+unitname.Daemon+" retries")
	}
	if j.a.Profile.Effective == "" && j.a.Profile.Broken == "" {
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
		j.addProblem(Down, fmt.Sprintf("%s is %s: changes of the configuration and the GPUs are not noticed", u.Unit, Words(u.Active, u.Sub, u.Result)),
			"systemctl start "+u.Unit)
		j.caveats = append(j.caveats, u.Unit+" does not run")
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
