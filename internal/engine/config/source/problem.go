package source

import (
	"cmp"
	"dcm/internal/sanitize"
	"dcm/internal/sorting"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	File       string `json:"file"`                 // as it was opened, or "kernel command line"
	Line       int    `json:"line,omitempty"`       // from 1; 0 where it is about the file as a whole
	Key        string `json:"key,omitempty"`        // dotted, "profiles.mixed.group.count"
	Value      string `json:"value,omitempty"`      // as TOML would write it; "" for a table or an array
	Text       string `json:"text"`                 // what is wrong
	Accepted   string `json:"accepted,omitempty"`   // what would be right
	Suggestion string `json:"suggestion,omitempty"` // what was probably meant
}

// String is the problem on one line:
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
	b.WriteString(Fault{p.Text, p.Accepted, p.Suggestion}.String())
	return b.String()
}

func FileLine(file string, line int) string {
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// Errors is every problem of the configuration, in the order of the layers and
// of the lines in each.
type Errors struct{ Problems []Problem }

// NewErrors returns an error with these problems.
func NewErrors(problems ...Problem) *Errors { return &Errors{problems} }

// MaxShown bounds what an error prints, for a file that is garbage throughout.
const MaxShown = 100

// Error prints one problem a line.
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

// Fault is what is wrong with a value, whatever the place it stands at.
type Fault struct{ Text, Accepted, Suggestion string }

func (f Fault) String() string {
	s := f.Text
	if f.Suggestion != "" {
		s += fmt.Sprintf("; did you mean %q?", f.Suggestion)
	}
	if f.Accepted != "" {
		if f.Suggestion == "" {
			s += ";"
		}
		s += " accepted: " + f.Accepted
	}
	return s
}

// NotOneOf is the fault of a value that is not in a closed set.
func NotOneOf(text, got string, all []string) *Fault {
	return &Fault{Text: text, Accepted: Enumerate(all), Suggestion: Nearest(got, all)}
}

// OneLine gives a message of a library the form of ours: one line that neither
// begins nor ends as a sentence.
func OneLine(s string) string {
	s = sanitize.Text(strings.TrimSuffix(strings.Join(strings.Fields(s), " "), "."))
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// Cause is an error without the path that the problem names already.
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
