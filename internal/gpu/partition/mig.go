package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dcm/internal/sorting"
)

// MIG is the geometry of one NVIDIA GPU: its GPU instances. Without instances the GPU is in
// MIG mode and unusable.
type MIG struct {
	Off       bool // MIG is off: the GPU is one partition
	Instances []Instance
}

// Instance is a GPU instance.
type Instance struct {
	Profile string   // "3g.40gb"
	Start   int      // first memory slot of the placement; -1: any
	Compute []string // compute instances, "1c.3g.40gb"; nil: one that spans the GPU instance
}

// unplaced is the Start of an instance without a placement.
const unplaced = -1

// InstanceProfile is a GPU instance profile of a device, with its possible placements.
type InstanceProfile struct {
	Name          string `json:"name"`
	ID            int    `json:"id"`     // id in the driver; differs between boards
	InstanceCount int    `json:"most"`   // maximum number of instances
	Size          int    `json:"size"`   // memory slots of a placement
	Starts        []int  `json:"starts"` // first slots of the placements, ascending
}

// NewMIG returns a geometry without placements from the number of instances per profile.
// Compute instances share a GPU instance while it has slices left: three of "1c.3g.40gb" are
// one GPU instance.
func NewMIG(counts map[string]int) (MIG, error) {
	var list []MIGProfile
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		p, err := ParseMIGProfile(name)
		if err != nil {
			return MIG{}, err
		}
		if n := counts[name]; n < 1 || n > 64 {
			return MIG{}, fmt.Errorf("%d of %s: accepted are 1 to 64", n, name)
		}
		list = append(list, slices.Repeat([]MIGProfile{p}, counts[name])...)
	}
	sorting.By(list, func(a, b MIGProfile) int {
		return cmp.Or(cmp.Compare(b.Slices, a.Slices), cmp.Compare(b.Memory, a.Memory),
			strings.Compare(a.Attribute, b.Attribute), cmp.Compare(b.slices(), a.slices()))
	})
	var m MIG
	free := 0 // left in the last instance
	for _, p := range list {
		gi, last := p.GPUInstance(), len(m.Instances)-1
		switch {
		case p.spansGPUInstance():
			m.Instances = append(m.Instances, Instance{Profile: gi, Start: unplaced})
			free = 0
		case last >= 0 && m.Instances[last].Profile == gi && free >= p.Compute:
			m.Instances[last].Compute = append(m.Instances[last].Compute, p.String())
			free -= p.Compute
		default:
			m.Instances = append(m.Instances, Instance{Profile: gi, Start: unplaced, Compute: []string{p.String()}})
			free = p.Slices - p.Compute
		}
	}
	return m, nil
}

// Same reports whether two geometries have the same instances with the same compute
// instances. If one of them has all placements, those that the other has must be the same.
func (m MIG) Same(o MIG) bool {
	if m.Off != o.Off || len(m.Instances) != len(o.Instances) {
		return false
	}
	if m.isPlaced() && o.isPlaced() {
		return m.key() == o.key()
	}
	a, b := m.sorted(), o.sorted()
	for i := range a {
		if compareInstances(a[i], b[i]) != 0 {
			return false
		}
	}
	switch {
	case m.isPlaced():
		return hasPlaced(a, b)
	case o.isPlaced():
		return hasPlaced(b, a)
	}
	return true
}

// hasPlaced reports whether the instances include all those of a list that have a placement.
func hasPlaced(has, list []Instance) bool {
	return !slices.ContainsFunc(list, func(i Instance) bool { return i.Start != unplaced && !slices.ContainsFunc(has, i.stays) })
}

// unplaced returns the geometry without placements, as a profile has it.
func (m MIG) unplaced() MIG {
	m.Instances = m.sorted()
	for i := range m.Instances {
		m.Instances[i].Start = unplaced
	}
	return m
}

// Counts returns the geometry in the form that [NewMIG] takes.
func (m MIG) Counts() map[string]int {
	counts := make(map[string]int)
	for _, i := range m.sorted() {
		for _, c := range i.Compute {
			counts[c]++
		}
		if len(i.Compute) == 0 {
			counts[i.Profile]++
		}
	}
	return counts
}

// isPlaced reports whether every instance has a placement.
func (m MIG) isPlaced() bool {
	return !slices.ContainsFunc(m.Instances, func(i Instance) bool { return i.Start == unplaced })
}

// key returns a text that differs for geometries that differ in any detail.
func (m MIG) key() string {
	m.Instances = m.sorted()
	sorting.By(m.Instances, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
	text, _ := m.MarshalText() // it never fails
	return string(text)
}

// Partitions returns the number of MIG devices. With MIG off it is 1.
func (m MIG) Partitions() int {
	if m.Off {
		return 1
	}
	n := 0
	for _, i := range m.Instances {
		n += max(1, len(i.Compute))
	}
	return n
}

// sorted returns the instances, the largest first. A compute instance that spans its GPU
// instance is omitted.
func (m MIG) sorted() []Instance {
	type parsed struct {
		Instance
		MIGProfile
	}
	list := make([]parsed, len(m.Instances))
	for i, one := range m.Instances {
		if i > 0 && one.Profile == m.Instances[i-1].Profile {
			list[i].MIGProfile = list[i-1].MIGProfile
		} else {
			list[i].MIGProfile, _ = ParseMIGProfile(one.Profile) // an invalid name sorts last
		}
		if len(one.Compute) > 0 {
			one.Compute = slices.Sorted(slices.Values(one.Compute))
			if len(one.Compute) == 1 && spans(one.Compute[0]) {
				one.Compute = nil
			}
		}
		list[i].Instance = one
	}
	sorting.By(list, func(a, b parsed) int {
		return cmp.Or(cmp.Compare(b.Slices, a.Slices), cmp.Compare(b.Memory, a.Memory), compareInstances(a.Instance, b.Instance))
	})
	out := make([]Instance, len(list))
	for i := range list {
		out[i] = list[i].Instance
	}
	return out
}

func spans(compute string) bool {
	p, err := ParseMIGProfile(compute)
	return err == nil && p.spansGPUInstance()
}

// compareInstances returns 0 if both have the same profile and compute instances.
func compareInstances(a, b Instance) int {
	return cmp.Or(strings.Compare(a.Profile, b.Profile), slices.Compare(a.Compute, b.Compute))
}

// Texts of [MIG.String] for a GPU without instances.
const (
	migOff   = "MIG off"
	migEmpty = "MIG on, empty"
)

// Names lists each instance, the largest first: "3g.40gb", "2g.20gb", "2g.20gb". It is empty
// with MIG off.
func (m MIG) Names() []string {
	var names []string
	for _, i := range m.sorted() {
		i.Start = unplaced
		names = append(names, i.String())
	}
	return names
}

// String returns the short form "3g.40gb, 2 × 2g.20gb", or "MIG off", or "MIG on, empty".
func (m MIG) String() string {
	switch {
	case m.Off:
		return migOff
	case len(m.Instances) == 0:
		return migEmpty
	}
	var names []string
	count := make(map[string]int)
	for _, name := range m.Names() {
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	for i, n := range names {
		if c := count[n]; c > 1 {
			names[i] = fmt.Sprintf("%d × %s", c, n)
		}
	}
	return strings.Join(names, ", ")
}
