package partition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dcm/internal/sorting"
)

// Pack returns the geometry with a placement for every instance, from the profiles that the
// GPU offers. It searches all placements, which are few in at most eight slots. A failure is
// therefore final, and dcm need not try on the hardware. The instances are in the order of their
// slots, which is the order of creation.
//
// The error names every profile that the GPU lacks, or is a [PackError].
func Pack(offered []InstanceProfile, m MIG) (MIG, error) {
	return PackKeeping(offered, m, Existing{})
}

// Existing are the instances that a GPU has now, with their placements.
type Existing struct {
	Instances []Instance
	Users     map[int][]InstanceUser // see [GPU.InstanceUsers]
}

// PackKeeping is Pack for a GPU that has instances. An instance stays if the new geometry has
// the same instance, with the same compute instances, at its placement. Of all placements
// PackKeeping selects the one that the fewest users block, of those the one that interrupts the
// fewest other users, then the one that destroys the fewest instances, then the one with the lowest
// slots. For the last, it compares the placements of the instances in the order of their size, the
// largest first.
func PackKeeping(offered []InstanceProfile, m MIG, now Existing) (MIG, error) {
	p := packer{offered: make(map[string]InstanceProfile, len(offered))}
	for _, s := range offered {
		p.offered[s.Name] = s
	}
	if err := p.validate(offered, m); err != nil {
		return MIG{}, err
	}
	list := m.sorted()
	sorting.By(list, func(a, b Instance) int { // the most restricted first
		return cmp.Or(compareFixed(a, b), cmp.Compare(p.offered[b.Profile].Size, p.offered[a.Profile].Size))
	})
	for _, i := range list {
		if i.Start != unplaced {
			p.fixed++
		}
	}
	p.keep = newKeeper(list, now)
	p.place(list, 0, 0)
	if p.keep.best == nil {
		return MIG{}, p.explain(offered, list)
	}
	list = p.keep.best
	sorting.By(list, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
	return MIG{Instances: list}, nil
}

// compareFixed sorts instances with a placement first.
func compareFixed(a, b Instance) int {
	rank := func(i Instance) int {
		if i.Start == unplaced {
			return 1
		}
		return 0
	}
	return cmp.Compare(rank(a), rank(b))
}

type packer struct {
	offered map[string]InstanceProfile
	fixed   int // number of instances, at the start of the list, with a placement
	keep    *keeper
}

// validate returns an error for profiles that the GPU does not offer, or not that often.
func (p packer) validate(offered []InstanceProfile, m MIG) error {
	var errs []error
	var unknown []string
	count := make(map[string]int)
	for _, i := range m.Instances {
		if count[i.Profile]++; count[i.Profile] > 1 {
			continue
		}
		if _, ok := p.offered[i.Profile]; !ok {
			unknown = append(unknown, i.Profile+suggestion(offered, i.Profile))
		}
	}
	if len(unknown) > 0 {
		errs = append(errs, unknownProfilesError(unknown, offered))
	}
	for _, s := range offered {
		if n := count[s.Name]; n > s.InstanceCount {
			errs = append(errs, fmt.Errorf("%d of %s do not fit: this GPU has room for %d", n, s.Name, s.InstanceCount))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, checkMediaEngines(offered, count))
	}
	for _, i := range m.Instances {
		if err := checkAllMediaEngines(i.Profile, m); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

// withMedia is the attribute of profiles with a JPEG and an OFA engine.
const withMedia = "+me"

// checkMediaEngines returns an error if the instances need more media engines than the GPU
// has. An A30 has one JPEG and one OFA engine: 2g.12gb+me leaves none for 1g.6gb+me.
func checkMediaEngines(offered []InstanceProfile, count map[string]int) error {
	n, most := 0, 0
	for _, s := range offered {
		if strings.HasSuffix(s.Name, withMedia) {
			n, most = n+count[s.Name], max(most, s.InstanceCount)
		}
	}
	if n > most {
		return fmt.Errorf("%d instances with %s do not fit: this GPU has media engines for %d", n, withMedia, most)
	}
	return nil
}

func unknownProfilesError(unknown []string, offered []InstanceProfile) error {
	is := "is no profile"
	if len(unknown) > 1 {
		is = "are no profiles"
	}
	return fmt.Errorf("%s %s of this GPU, which has %s", List(unknown), is, profileNames(offered))
}

// checkAllMediaEngines returns an error if a profile with all media engines is combined with
// one that needs some.
func checkAllMediaEngines(profile string, m MIG) error {
	if !strings.HasSuffix(profile, "+me.all") {
		return nil
	}
	for _, o := range m.Instances {
		if o.Profile != profile && !strings.HasSuffix(o.Profile, "-me") {
			return fmt.Errorf("%s takes all media engines: only profiles with -me fit next to it (found %s)", profile, o.Profile)
		}
	}
	return nil
}

func profileNames(offered []InstanceProfile) string {
	list := make([]string, len(offered))
	for i, s := range offered {
		list[i] = s.Name
	}
	return List(list)
}

// suggestion returns the offered profile with the same slices and the nearest size, for a name that
// belongs to a board with other memory or with other firmware.
func suggestion(offered []InstanceProfile, name string) string {
	want, err := ParseMIGProfile(name)
	if err != nil {
		return ""
	}
	best, distance := "", 0
	for _, s := range offered {
		has, err := ParseMIGProfile(s.Name)
		if err != nil || has.Slices != want.Slices || has.Attribute != want.Attribute {
			continue
		}
		if d := max(has.Memory-want.Memory, want.Memory-has.Memory); best == "" || d < distance {
			best, distance = " (here that is "+s.Name+")", d
		}
	}
	return best
}

// place finds placements for the instances from index i on, in ascending order, and offers
// each result to the keeper. It returns true if the search can end. Of two equal neighbours
// the second gets the later placement, since the reverse is the same geometry.
func (p packer) place(list []Instance, i int, taken uint) bool {
	if i == len(list) {
		return p.keep.offer(list)
	}
	one := &list[i]
	s, after := p.offered[one.Profile], unplaced
	if i > p.fixed && compareInstances(list[i-1], *one) == 0 {
		after = list[i-1].Start
	}
	for _, start := range s.Starts {
		if i < p.fixed && start != one.Start || start <= after || taken&s.slotMask(start) != 0 {
			continue
		}
		was := one.Start
		one.Start = start
		if p.place(list, i+1, taken|s.slotMask(start)) {
			return true
		}
		one.Start = was
	}
	return false
}

// slotMask returns the slots of a placement as bits.
func (s InstanceProfile) slotMask(start int) uint { return (1<<s.Size - 1) << start }

// PackError means that the instances do not fit together.
type PackError struct {
	Placed       []Instance // instances that fit, the largest first
	Next         string     // profile of the first instance that does not fit with them
	Free         []int      // slots that Placed leaves free
	Alternatives []string   // what fits there instead: "3g.40gb", "2 × 2g.20gb"
}

func (e *PackError) Error() string {
	placed := MIG{Instances: e.Placed}.String()
	switch {
	case len(e.Free) == 0:
		return fmt.Sprintf("%s does not fit with %s (no free slot)", e.Next, placed)
	case len(e.Alternatives) == 0:
		return fmt.Sprintf("%s does not fit with %s (free slots %s, room for no profile)", e.Next, placed, slotRanges(e.Free))
	}
	return fmt.Sprintf("%s does not fit with %s (free slots %s, room for %s)", e.Next, placed, slotRanges(e.Free), strings.Join(e.Alternatives, " or "))
}

// explain returns the error for the first instance that does not fit with those before it.
func (p packer) explain(offered []InstanceProfile, list []Instance) error {
	n := 0
	var placed []Instance
	for ; n < len(list); n++ {
		p.keep = newKeeper(nil, Existing{}) // accepts the first result
		if !p.place(slices.Clone(list[:n+1]), 0, 0) {
			break
		}
		placed = p.keep.best
	}
	e := &PackError{Placed: placed, Next: list[n].Profile}
	var taken uint
	for _, i := range placed {
		taken |= p.offered[i.Profile].slotMask(i.Start)
	}
	e.Free = freeSlots(offered, taken)
	for _, s := range offered {
		another := append(slices.Clone(placed), Instance{Profile: s.Name})
		if fit := p.countFits(s, placed, taken); fit > 0 && p.validate(offered, MIG{Instances: another}) == nil {
			e.Alternatives = append(e.Alternatives, countText(fit, s.Name))
		}
	}
	e.Alternatives = e.Alternatives[:min(len(e.Alternatives), 3)]
	return e
}

// countFits returns how many further instances of a profile fit.
func (p packer) countFits(s InstanceProfile, placed []Instance, taken uint) int {
	n := 0
	for _, i := range placed {
		if i.Profile == s.Name {
			n++
		}
	}
	fit := 0
	for _, start := range s.Starts {
		if run := s.slotMask(start); taken&run == 0 && n+fit < s.InstanceCount {
			taken |= run
			fit++
		}
	}
	return fit
}

func countText(n int, name string) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%d × %s", n, name)
}

// freeSlots lists the slots that are not taken and that a further instance can have.
func freeSlots(offered []InstanceProfile, taken uint) []int {
	var usable uint
	for _, s := range offered {
		for _, start := range s.Starts {
			if mask := s.slotMask(start); mask&taken == 0 {
				usable |= mask
			}
		}
	}
	var out []int
	for slot := range 64 {
		if bit := uint(1) << slot; usable&bit != 0 {
			out = append(out, slot)
		}
	}
	return out
}

// slotRanges formats ascending numbers: "4–7", "0–3, 6".
func slotRanges(list []int) string {
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(list[i]))
		} else {
			out = append(out, fmt.Sprintf("%d–%d", list[i], list[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}
