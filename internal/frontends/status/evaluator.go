package status

import (
	"slices"
)

type evaluator struct {
	a       Account
	state   State
	caveats []string // problems other than the GPUs' modes, in a few words
}

func (j *evaluator) raise(s State) {
	if s.rank() > j.state.rank() {
		j.state = s
	}
}

// addProblem adds a problem and its state.
func (j *evaluator) addProblem(s State, text, hint string) {
	j.raise(s)
	if text == "" || slices.ContainsFunc(j.a.Problems, func(p Problem) bool { return p.Text == text }) {
		return
	}
	j.a.Problems = append(j.a.Problems, Problem{s, text, hint})
}
