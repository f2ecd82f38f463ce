package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/sanitize"
	"dcm/internal/sorting"
)

// Problem is an error in the configuration.
type Problem struct {
	File         string   `json:"file"`                   // as it was opened, or "kernel command line"
	Line         int      `json:"line,omitempty"`         // from 1; 0 for a problem of the whole file
	Key          string   `json:"key,omitempty"`          // dotted, "profiles.mixed.group.count"
	Value        string   `json:"value,omitempty"`        // as TOML; "" for a table or an array
	Text         string   `json:"text"`                   // the error
	Accepted     string   `json:"accepted,omitempty"`     // accepted values
	Suggestion   string   `json:"suggestion,omitempty"`   // the probably intended value
	Alternatives []string `json:"alternatives,omitempty"` // the values of which one was probably intended
}

// String returns the problem in one line:
//
//	/etc/dcm/dcm.toml:7: profile = "cpx-nsp4": no such profile; did you mean "cpx-nps4"? accepted: cpx-nps1, cpx-nps4
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(FileLine(p.File, p.Line) + ": ")
	} else if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	b.WriteString(p.Key)
	if p.Value != "" {
		b.WriteString(" = " + p.Value)
	}
	if p.Key != "" {
		b.WriteString(": ")
	}
	b.WriteString(Fault{p.Text, p.Accepted, p.Suggestion, p.Alternatives}.String())
	return b.String()
}

// FileLine returns "file:line", or the file if line is 0.
func FileLine(file string, line int) string {
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// Errors has all problems of the configuration, in the order of the layers and of their lines.
type Errors struct{ Problems []Problem }

// NewErrors returns an error with these problems.
func NewErrors(problems ...Problem) *Errors { return &Errors{problems} }

// MaxShown limits the number of problems that an error prints.
const MaxShown = 100

// Error returns one line for each problem.
func (e *Errors) Error() string {
	lines := make([]string, 0, min(len(e.Problems), MaxShown)+1)
	for i, p := range e.Problems {
		if i == MaxShown {
			lines = append(lines, fmt.Sprintf("and %d more problems", len(e.Problems)-MaxShown))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Fault is an error in a value, without its place. Its fields are those of [Problem].
type Fault struct {
	Text, Accepted, Suggestion string
	Alternatives               []string
}

func (f Fault) String() string {
	s := f.Text
	meant := f.Alternatives
	if f.Suggestion != "" {
		meant = []string{f.Suggestion}
	}
	switch {
	case len(meant) > 0:
		s += "; did you mean " + alternatives(meant) + "?"
	case f.Accepted != "":
		s += ";"
	}
	if f.Accepted != "" {
		s += " accepted: " + f.Accepted
	}
	return s
}

// alternatives lists quoted names: "a", "b" or "c".
func alternatives(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	last := len(quoted) - 1
	if last == 0 {
		return quoted[0]
	}
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// NotOneOf returns the fault of a value that is not one of the accepted ones.
func NotOneOf(text, got string, all []string) *Fault {
	return &Fault{Text: text, Accepted: Enumerate(all), Suggestion: Nearest(got, all)}
}

// OneLine converts the message of a library: one line in lower case without a full stop.
func OneLine(s string) string {
	s = sanitize.Text(strings.TrimSuffix(strings.Join(strings.Fields(s), " "), "."))
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	word, _, _ := strings.Cut(s, " ")
	if word == "" || word[1:] != strings.ToLower(word[1:]) { // a name such as TOML
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// Cause returns the text of an error without the path, which the problem has.
func Cause(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return sanitize.Text(err.Error())
}

// Sort returns problems in the order of the files, then of their lines. Those of other files
// come first.
func Sort(problems []Problem, files ...string) []Problem {
	rank := func(p Problem) int { return slices.Index(files, p.File) }
	sorting.By(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Line, b.Line))
	})
	return problems
}
