package status

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/engine/runstate"
)

// profile evaluates the configuration and the modes of the GPUs.
func (j *evaluator) profile() {
	a := &j.a
	const mend = "dcm check shows what is wrong; repair the file"
	a.Profile.Applied, a.Health.InSync = "", false
	switch {
	case a.Profile.Effective == "" && a.Profile.Broken != "":
		j.addProblem(Broken, a.Profile.Broken, mend)
		return
	case a.Profile.Broken != "":
		j.addProblem(Kept, a.Profile.Broken, mend+"; until then the last good configuration stays effective")
		j.caveats = append(j.caveats, "the configuration on disk cannot be used")
	}
	switch {
	case a.Profile.Effective == "":
		j.raise(Idle)
		a.Health.InSync = true
	case starting(*a) && (len(a.GPUs) == 0 || !a.matches()):
		j.raise(Starting)
	case a.hidden(partGPUs) && len(a.GPUs) == 0:
		j.raise(Unseen)
	case a.matches():
		a.Profile.Applied = a.Profile.Effective
		a.Health.InSync = true
	case !a.Running() && !a.rolling():
		j.addMismatch()
	}
	if a.Running() || a.rolling() {
		j.raise(Changing)
	}
	j.addDaemonError()
}

// addMismatch evaluates GPUs that do not match the profile, by the phase of the daemon.
func (j *evaluator) addMismatch() {
	s, ok := offStates()[j.a.Daemon.Phase]
	if j.partial() {
		s = Partial
	} else if !ok || s == Changing { // Changing is determined from the units, too
		s = NotOn
	}
	j.raise(s)
}

// addDaemonError adds the daemon's error if it still applies. An error about clients that are down no
// longer applies when all clients are up. If an apply failed although the GPUs match, another part of
// it failed, such as a reload of systemd.
func (j *evaluator) addDaemonError() {
	e := j.a.Daemon.Error
	if e == nil {
		return
	}
	choosing := e.State == Waiting && j.a.Daemon.Phase == runstate.InSync
	if choosing {
		j.caveats = append(j.caveats, "not all reservations have their partitions yet")
	}
	unmet := e.State == Unmet
	if unmet {
		j.caveats = append(j.caveats, "a reservation cannot be met")
	}
	phase := j.a.Daemon.Phase
	failed := (phase == runstate.Waiting || phase == runstate.Stuck) && j.a.Health.InSync && !j.a.daemonDown()
	if failed {
		j.caveats = append(j.caveats, "the last apply failed")
	}
	over := !choosing && !unmet && !failed && j.a.Health.InSync && !j.a.Running() && len(j.a.Daemon.Pending) == 0 && !j.a.hidden(partClients) &&
		!slices.ContainsFunc(j.a.Clients, Client.down)
	if !over {
		state := e.State
		if j.partial() {
			state = Partial
		}
		j.addProblem(state, e.Text, e.Hint)
	}
}

// partial reports whether the last run failed on some GPUs or was for some of them, and these match the
// profile.
func (j *evaluator) partial() bool {
	off := j.a.Daemon.Phase == runstate.Waiting || j.a.Daemon.Phase == runstate.Stuck
	return off && !j.a.Health.InSync && j.a.LastRun != nil && (j.a.LastRun.Result == runstate.Partial || j.a.LastRun.Result == runstate.Round)
}

// gpus evaluates the number of GPUs, and pending modes.
func (j *evaluator) gpus() {
	a := &j.a
	if a.hidden(partGPUs) && len(a.GPUs) == 0 || a.Running() {
		return // during a reload of the driver there are no GPUs
	}
	switch n := a.Managed(); {
	case n < a.Expected.GPUs && starting(*a):
		a.Health.InSync = false
		if a.Profile.Effective != "" {
			j.raise(Starting)
		}
		if n == 0 { // none has been read
			a.Expected.Missing, a.Expected.Lost = nil, nil
		}
	case n < a.Expected.GPUs:
		a.Health.InSync = false
		j.addProblem(Missing, a.Expected.Text(n), a.Expected.hint(n))
	}
	for _, g := range a.GPUs {
		if g.Managed() && g.Pending != "" && g.Pending != g.Mode.Memory && g.Pending != g.Want.Memory {
			j.addProblem(Pending, fmt.Sprintf("%s is requested for %s and takes effect with the next load of the driver", g.Pending, g.Address),
				"select a profile with that memory mode, or reboot before the driver is loaded again")
			j.caveats = append(j.caveats, g.Pending+" is pending")
			break // the driver keeps one request for a whole hive
		}
	}
}

// partitions evaluates partitions that are not in the account, since the driver shows no device node for them,
// or one that it also shows for another partition.
func (j *evaluator) partitions() {
	if j.a.Running() || j.a.rolling() {
		return // a switch removes the partitions of the old mode first
	}
	found := false
	for _, g := range j.a.GPUs {
		text := j.a.Lacking(g)
		named := func(p Problem) bool {
			return p.State == Nodeless && p.Text != text && strings.Contains(p.Text, g.Address)
		}
		if text != "" && !slices.ContainsFunc(j.a.Problems, named) {
			j.addProblem(Nodeless, text, "dcm support selftest --read shows what differs; reload the driver or reboot")
			found = true
		}
	}
	if found {
		j.caveats = append(j.caveats, "partitions have no device node")
	}
}

// Lacking says how many partitions of a GPU with a compute mode are missing in the account; "" for none. It is ""
// while a lease has set the mode of the GPU, or is setting it.
func (a Account) Lacking(g GPU) string {
	n := 0
	for _, p := range a.Parts {
		if p.GPU == g.Address {
			n++
		}
	}
	if !g.Managed() || g.Mode.Compute == "" || g.Rest != "" || n >= g.Partitions {
		return ""
	}
	return fmt.Sprintf("%s: too few partitions with a device node of their own (found %d, want %d)", g.Address, n, g.Partitions)
}
