package rule

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"dcm/internal/engine/config/source"
	"dcm/internal/gpu/partition"
)

// NoProfile returns the fault of a name that no profile has, where the GPUs are not known. It accepts the defined
// profiles and the predefined ones. It leaves out the latter if a defined name is similar.
func NoProfile(name string, defined []string) *source.Fault {
	predefined := partition.PredefinedOfAllBoards()
	f := noSuchProfile(name, slices.Concat(defined, predefined))
	if len(defined) == 0 {
		f.Text += ": none is defined"
	}
	if instance, ok := instanceProfile(name); ok {
		f.Suggestion, f.Alternatives = instance, nil
	}
	f.Accepted = source.Enumerate(defined)
	if !slices.Contains(defined, f.Suggestion) && len(f.Alternatives) == 0 {
		f.Accepted = source.Enumerate(slices.Concat(defined, predefined, []string{"all-INSTANCE such as all-1g.10gb"}))
	}
	return f
}

// NoFittingProfile is [NoProfile] for known GPUs. fitting are the profiles that fit them.
func NoFittingProfile(name string, fitting []string) *source.Fault {
	f := noSuchProfile(name, fitting)
	if len(fitting) == 0 {
		f.Text += ", and no profile fits these GPUs"
	}
	return f
}

func noSuchProfile(name string, accepted []string) *source.Fault {
	f := &source.Fault{Text: "no such profile", Accepted: source.Enumerate(accepted)}
	switch like := similar(name, accepted); len(like) {
	case 0:
	case 1:
		f.Suggestion = like[0]
	case 2, 3, 4:
		f.Alternatives = like
	}
	return f
}

// instanceProfile returns the predefined profile of a MIG profile: "all-1g.10gb" for "1g.10gb" and "MIG 1g.10gb+me".
func instanceProfile(name string) (string, bool) {
	words := profileWords(name)
	if len(words) == 0 {
		return "", false
	}
	full := "all-" + words[len(words)-1]
	_, ok := partition.Predefined(full)
	return full, ok && strings.Contains(full, "g.")
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
