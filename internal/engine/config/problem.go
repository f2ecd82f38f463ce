package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
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
		b.WriteString(place(p.File, p.Line) + ": ")
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
	b.WriteString(fault{p.Text, p.Accepted, p.Suggestion}.String())
	return b.String()
}

func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// Errors is every problem of the configuration, in the order of the layers and
// of the lines in each.
type Errors struct{ Problems []Problem }

// shown bounds what an error prints, for a file that is garbage throughout.
const shown = 100

// Error prints one problem a line.
func (e *Errors) Error() string {
	lines := make([]string, 0, min(len(e.Problems), shown)+1)
	for i, p := range e.Problems {
		if i == shown {
			lines = append(lines, fmt.Sprintf("and %d more problems", len(e.Problems)-shown))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// fault is what is wrong with a value, whatever the place it stands at.
type fault struct{ text, accepted, suggestion string }

func (f fault) String() string {
	s := f.text
	if f.suggestion != "" {
		s += fmt.Sprintf("; did you mean %q?", f.suggestion)
	}
	if f.accepted != "" {
		if f.suggestion == "" {
			s += ";"
		}
		s += " accepted: " + f.accepted
	}
	return s
}

// notOne is the fault of a value that is not in a closed set.
func notOne(text, got string, all []string) *fault {
	return &fault{text: text, accepted: enumerate(all), suggestion: nearest(got, all)}
}

func noProfile(name string, all []string) *fault {
	f := notOne("no such profile", name, all)
	if len(all) == 0 {
		f.text += ": none is defined"
	}
	if f.suggestion == "" {
		f.suggestion = nearest(name, []string{"all-disabled", "all-enabled", "all-balanced"})
	}
	return f
}

// enumerate joins names for a message, and cuts a long list short.
func enumerate(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// clip quotes a string for a message and cuts a long one short.
func clip(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return quote(s)
}
