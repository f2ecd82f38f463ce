package rule

import (
	"regexp"
	"slices"
	"strings"

	"dcm/internal/engine/config/source"
)

// similar returns the known names that a name means. Other tools write a profile differently: "1g.10gb" and
// "MIG 1g.10gb" (nvidia-smi), "balanced" and "all-1g.10gb+me" (mig-parted), "CPX", "NPS4" and "CPX/NPS4" (amd-smi),
// "cpx-profile" (AMD's device-config-manager). Without such a name it returns the one with the most similar letters.
func similar(name string, known []string) []string {
	words := profileWords(name)
	found := slices.DeleteFunc(slices.Clone(known), func(k string) bool {
		has := profileWords(k)
		return len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(has, w) })
	})
	if len(found) > 0 {
		return found
	}
	if one := source.Nearest(name, known); one != "" {
		return []string{one}
	}
	return sameSlices(name, known)
}

// sameSlices returns the profiles of a MIG profile with as many slices: "1g.5gb" of an A100 is "all-1g.10gb" on an
// H100.
func sameSlices(name string, known []string) []string {
	want := migSlices.FindStringSubmatch(name)
	if want == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(known), func(k string) bool {
		m := migSlices.FindStringSubmatch(k)
		return m == nil || m[1] != want[1] || m[2] != want[2]
	})
}

var migSlices = regexp.MustCompile(`(?i)(?:^|[^0-9])([0-9]g)\.[0-9]+gb(?:[.+]([a-z.]+))?$`)

// profileWords returns the words of a profile's name without those that only say what it is a name of.
func profileWords(name string) []string {
	name = strings.ReplaceAll(strings.ToLower(name), "+", ".")
	name = joinedModes.ReplaceAllString(name, "$1-$2")
	words := strings.FieldsFunc(name, func(r rune) bool { return !(r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') })
	var out []string
	for _, w := range words {
		switch w {
		case "mig", "amd", "profile", "partition", "mode", "compute", "memory":
			continue
		case "off", "disable":
			w = "disabled"
		case "on", "enable":
			w = "enabled"
		}
		out = append(out, w)
	}
	return out
}

var joinedModes = regexp.MustCompile(`([sdtqc]px)(nps[0-9])`)
