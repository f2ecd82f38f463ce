package status

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
	"dcm/internal/linux/unitname"
)

// clients evaluates the client units. During a run they are stopped on purpose.
func (j *evaluator) clients() {
	a := j.a
	if a.Running() {
		return
	}
	j.withoutGPU()
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

// withoutGPU evaluates the clients that had a GPU open before their restart.
func (j *evaluator) withoutGPU() {
	for _, c := range j.a.Clients {
		if c.GPU == runstate.NoGPU {
			j.addProblem(NoGPU, runstate.WithoutGPU(c.Unit, c.GPUs),
				"journalctl -u "+c.Unit+" shows why; if it opens GPUs only while it works, set opens = \"on-demand\" in its [[client]]")
		}
	}
}

// units evaluates the units of dcm, if a profile is selected.
func (j *evaluator) units() {
	if u, ok := j.a.unit(unitname.Reserve); ok && u.Active == "failed" {
		j.addProblem(Unmet, fmt.Sprintf("%s is %s: reservations may lack their partitions", u.Unit, Words(u.Active, u.Sub, u.Result)),
			"journalctl -u "+u.Unit+" shows why; systemctl restart "+unitname.Daemon+" retries")
	}
	j.failed()
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

// failed evaluates the units that are started for other units, and do not run otherwise.
func (j *evaluator) failed() {
	n := 0
	for _, u := range j.a.FailedUnits() {
		if u.Unit == unitname.Reserve {
			continue // see units
		}
		state, task, hint := Faulty, ownTask(u.Unit), "journalctl --unit='"+u.Unit+"' shows why"
		if service := madeFor(u.Unit); service != "" {
			state, task = Unmet, service+" does not start without its partition"
			hint += "; systemctl start '" + service + "' retries"
		}
		j.addProblem(state, fmt.Sprintf("%s is %s: %s", u.Unit, Words(u.Active, u.Sub, u.Result), task), hint)
		n++
	}
	switch {
	case n == 1:
		j.caveats = append(j.caveats, "a unit of dcm has failed")
	case n > 1:
		j.caveats = append(j.caveats, fmt.Sprintf("%d units of dcm have failed", n))
	}
}

// madeFor returns the service whose partition a unit creates: that of dcm-make@PROFILE_SERVICE.service. It returns
// "" for other units.
func madeFor(unit string) string {
	prefix, suffix, _ := strings.Cut(unitname.Make, "@")
	instance, ok := strings.CutPrefix(unit, prefix+"@")
	_, service, _ := strings.Cut(strings.TrimSuffix(instance, suffix), "_")
	if !ok || !strings.HasSuffix(service, ".service") {
		return ""
	}
	return service
}

// ownTask returns what does not happen after the failure of a unit of dcm.
func ownTask(unit string) string {
	if partition := unitname.CleanedBy(unit); partition != "" {
		return partition + " was not cleaned after its last user"
	}
	switch unit {
	case unitname.Guard:
		return "other processes may be able to open exclusive partitions"
	case unitname.Gate:
		return "a change of single GPUs did not start"
	case unitname.Agent:
		return "agents cannot select profiles"
	}
	return "it did not create or destroy the partition of a lease"
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
