package slurm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Feature returns a profile's name as the name of a feature. Slurm allows letters, digits, "_"
// and ".", and no digit at the start. Other characters become "_": cpx-nps4 becomes cpx_nps4.
func Feature(profile string) string {
	name := strings.Map(func(r rune) rune {
		if isLetter(r) || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '_'
	}, profile)
	if name == "" || !isLetter(rune(name[0])) && name[0] != '_' {
		name = "_" + name
	}
	return name
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// Features returns the profiles by the names of their features. Two profiles with the same
// feature are an error, since a job could not select one of them.
func Features(profiles []string) (map[string]string, error) {
	out := make(map[string]string)
	for _, p := range profiles {
		f := Feature(p)
		if other, taken := out[f]; taken && other != p {
			return nil, fmt.Errorf("profiles %q and %q have the same Slurm feature %s. hint: rename one of them", other, p, f)
		}
		out[f] = p
	}
	return out, nil
}

// Profile returns the profile of a feature.
func Profile(features map[string]string, name string) (string, error) {
	if p, ok := features[name]; ok {
		return p, nil
	}
	return "", fmt.Errorf("there is no feature %q; accepted: %s", name, strings.Join(slices.Sorted(maps.Keys(features)), ", "))
}
