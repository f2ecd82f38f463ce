package status

import (
	"slices"
)

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
