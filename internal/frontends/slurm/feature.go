package slurm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Feature is a profile's name as Slurm takes it for a feature: letters, digits, "_" and
// ".", the first one no digit. All else becomes "_": cpx-nps4 is cpx_nps4.
func Feature(profile string) string {
	name := strings.Map(func(r rune) rune {
		if letter(r) || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '_'
	}, profile)
	if name == "" || !letter(rune(name[0])) && name[0] != '_' {
		name = "_" + name
	}
	return name
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// Features are the profiles by the name of their feature. Two of one name are refused:
// nobody could say which of them a job asks for.
func Features(profiles []string) (map[string]string, error) {
	out := make(map[string]string)
	for _, p := range profiles {
		f := Feature(p)
		if other, taken := out[f]; taken && other != p {
			return nil, fmt.Errorf("profiles %q and %q are one feature of Slurm's, %s: rename one of them", other, p, f)
		}
		out[f] = p
	}
	return out, nil
}

// Profile is the profile of a feature, out of those of [Features].
func Profile(features map[string]string, name string) (string, error) {
	if p, ok := features[name]; ok {
		return p, nil
	}
	return "", fmt.Errorf("there is no feature %q; accepted: %s", name, strings.Join(slices.Sorted(maps.Keys(features)), ", "))
}
