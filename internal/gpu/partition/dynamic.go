package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Made is what leases have made on a dynamic GPU, or are making.
type Made struct {
	Instances []Instance // with their placements
	MadeMode
}

// MadeMode is a compute mode that leases have set. The zero value is none.
type MadeMode struct {
	Compute Compute
	Rest    Compute // the mode before and afterwards
}

// Describe says for the status that leases have set the mode of a GPU.
func (m MadeMode) Describe(gpu Address) string {
	return fmt.Sprintf("%s: leases have set %s (without leases: %s)", gpu, m.Compute, m.Rest)
}

// HasMadeMode reports whether leases have set the mode of the GPU.
func (g GPU) HasMadeMode() bool { return g.MadeMode.Compute != "" && g.MadeMode.Compute == g.Compute }

// withMadeMode returns the wanted modes of a dynamic GPU: those of its group or, if leases have set the
// compute mode and it is to return to that of the group, the present ones. Otherwise a change waits for
// the end of the leases.
func (g GPU) withMadeMode(rest Mode) Mode {
	if g.HasMadeMode() && g.MadeMode.Rest == rest.Compute && g.Memory == rest.Memory {
		return g.Mode()
	}
	return rest
}

// IsMode reports whether the text of a request to make something is the name of a compute mode.
func IsMode(text string) bool {
	_, err := ParseCompute(text)
	return err == nil
}

// CheckMade checks what a lease makes: a compute mode, or a profile as for [ParseMade].
func CheckMade(text string) error {
	if IsMode(text) {
		return nil
	}
	if upper := strings.ToUpper(text); IsMode(upper) {
		return fmt.Errorf("unknown compute mode %q; write %s", text, upper)
	}
	if _, err := ParseMade(text); err != nil {
		return fmt.Errorf("%w, nor a compute mode (%s)", err, List(ComputeModes()))
	}
	return nil
}

// Slot is a placement for one more instance.
type Slot struct {
	Start  int
	Before int // the room without the instance, see room
	After  int // the same with the instance
}

// room returns how much can be created in the slots that are not taken: the sizes of all placements that are
// free, added. So a small instance is placed where it prevents the fewest large ones, which have few
// placements. Profiles that differ in their engines only count once.
func room(offered []InstanceProfile, taken uint) int {
	type placement struct{ slices, slots, start int }
	sum, counted := 0, make(map[placement]bool)
	for _, s := range offered {
		name, _ := ParseMIGProfile(s.Name) // without one, the slots distinguish it
		for _, start := range s.Starts {
			if one := (placement{name.Slices, s.Size, start}); taken&s.slotMask(start) == 0 && !counted[one] {
				counted[one] = true
				sum += s.Size
			}
		}
	}
	return sum
}

// NoSlotError is returned if an instance does not fit next to the existing ones.
type NoSlotError struct {
	Profile string
	Free    []int // the free slots
	Movable bool  // it would fit if the existing instances had other placements
}

func (e *NoSlotError) Error() string {
	text := fmt.Sprintf("no room for %s (no free slot)", e.Profile)
	if len(e.Free) > 0 {
		text = fmt.Sprintf("no room for %s (free slots %s)", e.Profile, slotRanges(e.Free))
	}
	if e.Movable {
		text += "; it would fit with other placements of the existing instances"
	}
	return text
}

// NextSlot returns the placement for one more instance of a profile next to the existing instances: the
// one that leaves the most room. It returns a [NoSlotError] if there is none now, and
// another error if the GPU never has one.
func NextSlot(offered []InstanceProfile, now []Instance, profile string) (Slot, error) {
	p := packer{offered: make(map[string]InstanceProfile, len(offered))}
	for _, s := range offered {
		p.offered[s.Name] = s
	}
	one := Instance{Profile: profile, Start: unplaced}
	if err := p.validate(offered, MIG{Instances: []Instance{one}}); err != nil {
		return Slot{}, err
	}
	var taken uint
	for _, i := range now {
		s, known := p.offered[i.Profile]
		if !known {
			return Slot{}, fmt.Errorf("the GPU has an instance of the unknown profile %q", i.Profile)
		}
		taken |= s.slotMask(i.Start)
	}
	best := Slot{Start: unplaced, Before: room(offered, taken), After: -1}
	all := MIG{Instances: append(slices.Clone(now), one)}
	s := p.offered[profile]
	for _, start := range s.Starts {
		run := s.slotMask(start)
		if after := room(offered, taken|run); taken&run == 0 && after > best.After {
			best.Start, best.After = start, after
		}
	}
	if best.Start == unplaced || p.validate(offered, all) != nil {
		_, err := Pack(offered, all.unplaced())
		return Slot{}, &NoSlotError{Profile: profile, Free: freeSlots(offered, taken), Movable: err == nil}
	}
	return best, nil
}

// RoomFor returns an error if the GPU has no room for one more instance of a profile next to others,
// whatever their placements are.
func (g GPU) RoomFor(others []Instance, profile string) error {
	_, err := g.pack(MIG{Instances: append(slices.Clone(others), Instance{Profile: profile, Start: unplaced})}, Existing{})
	return err
}

// FreeRuns returns the number of free memory slots of a GPU with MIG, and the length of the longest run of
// them, which limits the size of further instances. The instances that leases make have their slots before
// they exist, and until they are destroyed.
func (g GPU) FreeRuns() (free, longest int) {
	if g.MIG == nil || g.MIG.Off {
		return 0, 0
	}
	offered := g.OfferedProfiles()
	var taken uint
	for _, i := range slices.Concat(g.MIG.Instances, g.Made) {
		for _, s := range offered {
			if s.Name == i.Profile {
				taken |= s.slotMask(i.Start)
			}
		}
	}
	list := freeSlots(offered, taken)
	return len(list), longestRun(list)
}

// longestRun returns the length of the longest run of consecutive numbers in an ascending list.
func longestRun(list []int) int {
	longest, run := 0, 0
	for i, n := range list {
		if i == 0 || n != list[i-1]+1 {
			run = 0
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// ParseMade parses the profile of an instance that a lease makes: of a GPU instance with one compute
// instance that spans it.
func ParseMade(profile string) (MIGProfile, error) {
	p, err := ParseMIGProfile(profile)
	switch {
	case err != nil:
		return p, err
	case !p.spansGPUInstance() || p.GPUInstance() != profile:
		return p, errors.New("not the profile of a whole GPU instance (found " + profile + ", want one such as " + p.GPUInstance() + ")")
	}
	return p, nil
}

// Overlap reports whether two placed instances have a slot in common. An unknown profile has one slot.
func Overlap(offered []InstanceProfile, a, b Instance) bool {
	mask := func(i Instance) uint {
		for _, s := range offered {
			if s.Name == i.Profile {
				return s.slotMask(i.Start)
			}
		}
		return 1 << i.Start
	}
	return mask(a)&mask(b) != 0
}
