package selftest

import (
	"fmt"
	"slices"
	"strings"
)

// ModeResult is what a self-test found in one mode.
type ModeResult struct {
	Mode       string  `json:"mode"`
	SkipReason string  `json:"skipped,omitempty"`
	Timing     *Timing `json:"timing,omitempty"` // of the change to the mode; nil without a run
	Checks     []Check `json:"checks"`
}

// Verdict is Wrong if a check failed, Noted if the mode was skipped, and else Right.
func (m ModeResult) Verdict() Verdict {
	switch {
	case Failed(m.Checks):
		return Wrong
	case m.SkipReason != "":
		return Noted
	}
	return Right
}

// Of returns the worst verdict on a source, "" if nothing was compared with it.
func (m ModeResult) Of(s Source) Verdict {
	var worst Verdict
	for _, c := range m.Checks {
		if c.Source == s && (worst == "" || c.Verdict == Wrong || c.Verdict == NotSeen && worst == Right) {
			worst = c.Verdict
		}
	}
	return worst
}

// Failures returns a line for each different text of the failed checks, with what was checked.
func (m ModeResult) Failures() []string {
	var texts []string
	what := make(map[string][]string)
	for _, c := range m.Checks {
		if c.Verdict != Wrong {
			continue
		}
		text := c.Text
		if c.Named != "" {
			text = c.Named
		}
		if what[text] == nil {
			texts = append(texts, text)
		}
		what[text] = appendDistinct(what[text], c.What)
	}
	var out []string
	for _, text := range texts {
		out = append(out, text+" ("+strings.Join(what[text], "; ")+")")
	}
	return out
}

// Outcome is the conclusion of a self-test.
type Outcome struct {
	Changed bool    `json:"changed"`
	Checks  []Check `json:"checks"` // those that are not about one mode
	Modes   int     `json:"modes"`  // that were tested
	Wrong   int     `json:"wrong"`  // of them
	Counts  string  `json:"counts"` // of all checks by verdict
	Differ  []Row   `json:"differ"` // facts that differ from the simulator
	Facts   int     `json:"facts"`  // all compared facts
	Archive string  `json:"archive"`
}

// Notes returns the checks of an outcome that are shown: failures and information, each of those
// that could not be made once.
func (o Outcome) Notes() []Check {
	var out []Check
	for _, c := range o.Checks {
		same := func(other Check) bool { return other.What == c.What && other.Text == c.Text }
		if (c.Verdict != Right || c.What == WhileOpen) && !slices.ContainsFunc(out, same) {
			out = append(out, c)
		}
	}
	return out
}

// WhileOpen is the check that a change is refused while a process has a GPU open.
const WhileOpen = "a change while a GPU is open"

// Failed reports whether a check has failed.
func (o Outcome) Failed() bool { return o.Wrong > 0 || Failed(o.Checks) }

// Verdict returns the conclusion in one sentence.
func (o Outcome) Verdict() string {
	switch {
	case o.Wrong == 1 && o.Changed:
		return fmt.Sprintf("1 of %d modes is wrong.", o.Modes)
	case o.Wrong > 0 && o.Changed:
		return fmt.Sprintf("%d of %d modes are wrong.", o.Wrong, o.Modes)
	case o.Failed():
		return "The self-test found an error."
	case o.Changed:
		return fmt.Sprintf("All %d modes are right.", o.Modes)
	}
	return "The GPUs are read correctly."
}
