package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dcm/internal/engine/runstate"
)

// Evaluate returns the account with its health and its problems. No other function determines the
// health of a host.
func Evaluate(a Account) Account {
	j := evaluator{a: a, state: Healthy}
	j.a.Problems = slices.Clone(a.Problems)
	j.profile()
	j.gpus()
	j.partitions()
	j.clients()
	j.reserved()
	j.unconfined()
	j.units()
	for _, p := range a.Problems {
		j.raise(p.State)
	}
	j.a.Health.State, j.a.Health.Code = j.state, j.state.Code()
	j.a.Health.Summary = j.summary()
	return j.a
}

// evaluator is the state of [Evaluate].
type evaluator struct {
	a       Account
	state   State
	caveats []string // problems other than the GPUs' modes, in a few words for the summary
}

// raise sets the state unless it is already worse.
func (j *evaluator) raise(s State) {
	if s.rank() > j.state.rank() {
		j.state = s
	}
}

// addProblem adds a problem and raises the state to s.
func (j *evaluator) addProblem(s State, text, hint string) {
	j.raise(s)
	if text == "" || slices.ContainsFunc(j.a.Problems, func(p Problem) bool { return p.Text == text }) {
		return
	}
	j.a.Problems = append(j.a.Problems, Problem{s, text, hint})
}

// summary describes the health in a sentence.
func (j *evaluator) summary() string {
	p := j.a.Profile
	var s string
	switch {
	case p.Effective == "" && p.Broken != "":
		return "The configuration cannot be used"
	case j.a.Running():
		return fmt.Sprintf("Profile %s is being put on the GPUs", p.Effective) + j.a.progress()
	case j.a.rolling():
		return fmt.Sprintf("Profile %s is being put on the GPUs in rounds", p.Effective) + j.a.progress() + j.a.nextRound()
	case j.state == Starting:
		s = fmt.Sprintf("dcm is starting; profile %s is not on the GPUs yet", p.Effective)
	case p.Effective == "" && j.a.noGPUs():
		s = "No partitionable GPU was found"
	case p.Effective == "":
		s = "No profile is selected; the GPUs are left alone"
	case j.a.hidden(partGPUs) && len(j.a.GPUs) == 0:
		s = fmt.Sprintf("Profile %s is selected; the GPUs cannot be seen", p.Effective)
	case p.Applied != "":
		s = fmt.Sprintf("Profile %s is on the GPUs", p.Effective)
		if n := j.a.Managed(); n < j.a.Expected.GPUs {
			s = fmt.Sprintf("Profile %s is on %d of %d GPUs", p.Effective, n, j.a.Expected.GPUs)
		}
	case j.a.Daemon.Phase == runstate.Rebooting:
		s = fmt.Sprintf("Rebooting, to put profile %s on the GPUs", p.Effective)
	default:
		s = fmt.Sprintf("Profile %s is not on the GPUs", p.Effective) + j.a.progress()
		if retry := j.a.Daemon.Retry; !retry.IsZero() && j.a.Daemon.Phase == runstate.Waiting {
			s += ", trying again at " + retry.Local().Format(time.TimeOnly)
		}
	}
	if len(j.caveats) > 0 {
		conjunction := ", but "
		if p.Effective != "" && p.Applied == "" {
			conjunction = ", and " // another problem
		}
		s += conjunction + strings.Join(j.caveats, ", ")
	}
	return s
}

// noGPUs reports whether the host has no GPU that can be partitioned. While the daemon starts, it has
// not read them.
func (a Account) noGPUs() bool {
	return a.Managed() == 0 && a.Expected.GPUs == 0 && !a.hidden(partGPUs) && !starting(a)
}
