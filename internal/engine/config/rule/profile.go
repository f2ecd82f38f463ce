package rule

import (
	"dcm/internal/engine/config/source"
	"strings"
	"unicode"
	"unicode/utf8"
)

func NoProfile(name string, all []string) *source.Fault {
	f := source.NotOneOf("no such profile", name, all)
	if len(all) == 0 {
		f.Text += ": none is defined"
	}
	if f.Suggestion == "" {
		f.Suggestion = source.Nearest(name, []string{"all-disabled", "all-enabled", "all-balanced"})
	}
	return f
}

// Selectable judges the name as such; that the profile exists is judged when all
// layers are known.
func Selectable(name string) *source.Fault {
	if name == "" || name == None {
		return nil
	}
	return ProfileName(name)
}

// ProfileName refuses what could not be told apart in a report or be given on
// the kernel command line.
func ProfileName(name string) *source.Fault {
	odd := strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' })
	switch {
	case name == None:
		return &source.Fault{Text: "reserved name: it selects no profile"}
	case name == "":
		return &source.Fault{Text: "the name is empty"}
	case odd || len(name) > 64 || !utf8.ValidString(name) || strings.TrimSpace(name) != name:
		return &source.Fault{Text: "not a valid profile name", Accepted: "at most 64 bytes of printable text, without \" and without blanks at its ends"}
	}
	return nil
}

// None is the name that selects no profile, on the kernel command line and in
// the files; no profile can be called that.
const None = "none"
