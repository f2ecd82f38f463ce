package partition

import (
	"errors"
	"slices"
	"strings"
)

// Family is a geometry that depends on the board: [Balanced], or the name of a profile with
// which the GPU is filled.
type Family string

// Balanced is a large instance, a medium one and two small ones. On a board with four slices
// it is a medium one and two small ones.
const Balanced Family = "balanced"

// Predefined returns the profile of a name that needs no definition: "all-disabled",
// "all-enabled", "all-balanced", "all-1g.10gb" and similar, with the names of mig-parted. A
// "." in them stands for the "+" of an attribute.
func Predefined(name string) (Profile, bool) {
	what, ok := strings.CutPrefix(name, "all-")
	p := Profile{Name: name}
	switch what {
	case "disabled":
		p.MIG = &MIG{Off: true}
	case "enabled":
		p.MIG = &MIG{}
	case string(Balanced):
		p.Groups = []Group{{Family: Balanced, Rest: true}}
	default:
		f, valid := familyOf(what)
		p.Groups = []Group{{Family: f, Rest: true}}
		ok = ok && valid
	}
	return p, ok
}

// familyOf parses the name of a MIG profile as it is spelled in a predefined name.
func familyOf(name string) (Family, bool) {
	for _, attribute := range []string{"me.all", "me", "gfx"} {
		if plain, ok := strings.CutSuffix(name, "."+attribute); ok {
			name = plain + "+" + attribute
			break
		}
	}
	p, err := ParseMIGProfile(name)
	return Family(name), err == nil && p.Compute == 0 && p.String() == name
}

// PredefinedOfAllBoards lists the predefined profiles that fit every board with MIG.
func PredefinedOfAllBoards() []string { return []string{"all-disabled", "all-enabled", "all-balanced"} }

// PredefinedNames lists the predefined profiles that fit at least one of the GPUs. It is
// empty without a GPU with MIG.
func PredefinedNames(gpus []GPU) []string {
	var names []string
	for _, g := range gpus {
		if g.MIG == nil {
			continue
		}
		if names == nil {
			names = PredefinedOfAllBoards()
		}
		offered, _ := g.instanceProfiles()
		for _, s := range offered {
			if name := "all-" + strings.Replace(s.Name, "+", ".", 1); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// OfferedProfiles returns the profiles that instances of the GPU can have, nil if they are unknown.
func (g GPU) OfferedProfiles() []InstanceProfile {
	if g.MIG == nil {
		return nil
	}
	offered, _ := g.instanceProfiles() // the error is that they are unknown
	return offered
}

// instanceProfiles returns the profiles of the GPU: those that the driver reports, otherwise
// those of the table of boards.
func (g GPU) instanceProfiles() ([]InstanceProfile, error) {
	if g.Profiles != nil {
		return withKnownCounts(g, g.Profiles), nil
	}
	if b, known := BoardOf(g); known && g.MIG.Off {
		return b.Profiles, nil
	}
	if g.MIG.Off {
		return nil, errProfilesUnknown
	}
	return nil, errors.New("the driver does not list its MIG profiles")
}

var errProfilesUnknown = errors.New("the driver lists the MIG profiles of this model only with MIG on: select all-enabled first, or a profile with counts")

// geometry returns the geometry of the family on one GPU.
func (f Family) geometry(g GPU) (MIG, error) {
	offered, err := g.instanceProfiles()
	if err != nil {
		return MIG{}, err
	}
	if f == Balanced {
		return balanced(offered)
	}
	i := slices.IndexFunc(offered, func(s InstanceProfile) bool { return s.Name == string(f) })
	if i < 0 {
		return MIG{}, unknownProfilesError([]string{string(f) + suggestion(offered, string(f))}, offered)
	}
	one := packer{}.countFits(offered[i], nil, 0)
	return NewMIG(map[string]int{string(f): one})
}

// balanced uses the smallest profile without attributes for each number of slices, but no
// profile that is the whole GPU.
func balanced(offered []InstanceProfile) (MIG, error) {
	whole := 0
	for _, s := range offered {
		whole = max(whole, s.Size)
	}
	least := make(map[int]InstanceProfile)
	for _, s := range offered {
		p, err := ParseMIGProfile(s.Name)
		if has, ok := least[p.Slices]; err == nil && p.Attribute == "" && s.Size < whole && (!ok || s.Size < has.Size) {
			least[p.Slices] = s
		}
	}
	counts := make(map[string]int)
	for slices, n := range map[int]int{1: 2, 2: 1, 3: 1} {
		if s, ok := least[slices]; ok {
			counts[s.Name] = min(n, s.InstanceCount)
		}
	}
	return NewMIG(counts)
}
