package rule

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// NoProfile returns the fault of a name that is not defined. The predefined profiles of MIG are named where no
// profile is defined, and for a name that begins like theirs.
func NoProfile(name string, all []string) *source.Fault {
	predefined := partition.PredefinedOfAllBoards()
	f := source.NotOneOf("no such profile", name, all)
	if len(all) == 0 {
		f.Text += ": none is defined"
	}
	if f.Suggestion == "" {
		f.Suggestion = source.Nearest(name, predefined)
	}
	if len(all) == 0 || strings.HasPrefix(name, "all") {
		f.Accepted = source.Enumerate(slices.Concat(all, predefined, []string{"all-INSTANCE such as all-1g.10gb"}))
	}
	return f
}

// Selectable checks the form of a selected name. Whether the profile exists is checked after the merge
// of all layers.
func Selectable(name string) *source.Fault {
	if name == "" || name == None {
		return nil
	}
	return ProfileName(name)
}

// ProfileName checks that a name is printable and can be given on the kernel command line.
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

// None is the name that selects no profile. No profile can have this name.
const None = "none"
