package partition

import (
	"errors"
	"slices"
	"strings"
)

// Family is a geometry that depends on the board: [Balanced], or a profile of which
// there are to be as many as fit.
type Family string

// Balanced is a large instance, a middling one and two small ones; on a board with four
// slices a middling one and two small ones.
const Balanced Family = "balanced"

// Common returns the profile of that name which needs no definition: "all-disabled",
// "all-enabled", "all-balanced", "all-1g.10gb" and the like, as users of mig-parted
// know them. In these a dot stands for the plus of an attribute.
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

// familyOf reads the name of a profile as it is in that of a family.
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

// CommonNames lists the profiles of [Common] that suit one of the GPUs at least: none
// without a GPU that has MIG.
func PredefinedNames(gpus []GPU) []string {
	var names []string
	for _, g := range gpus {
		if g.MIG == nil {
			continue
		}
		if names == nil {
			names = []string{"all-disabled", "all-enabled", "all-balanced"}
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

// offers are the instances that the GPU offers, as it tells or else as is known of its
// board.
func (g GPU) instanceProfiles() ([]InstanceProfile, error) {
	if g.Profiles != nil {
		return g.withKnownCounts(g.Profiles), nil
	}
	if b, known := boardOf(g); known && g.MIG.Off {
		return b.Profiles, nil
	}
	if g.MIG.Off {
		return nil, errProfilesUnknown
	}
	return nil, errors.New("the driver does not tell its MIG profiles")
}

var errProfilesUnknown = errors.New("its driver tells the MIG profiles of this model with MIG on only: select all-enabled first, or a profile that says how many there are to be")

// geometry is the family's on one GPU.
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

// balanced takes the smallest profile without attributes of each number of slices.
func balanced(offered []InstanceProfile) (MIG, error) {
	least := make(map[int]InstanceProfile)
	for _, s := range offered {
		p, err := ParseMIGProfile(s.Name)
		if has, ok := least[p.Slices]; err == nil && p.Attribute == "" && (!ok || s.Size < has.Size) {
			least[p.Slices] = s
		}
	}
	counts := make(map[string]int)
	for slices, n := range map[int]int{1: 2, 2: 1, 3: 1} {
		if s, ok := least[slices]; ok {
			counts[s.Name] = n
		}
	}
	return NewMIG(counts)
}
