package partition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Settings are what the driver changes on an AMD GPU while it is in use. In a GPU, "" means that the driver has no
// such setting. In a profile it means: as before the change.
type Settings struct {
	Allocation Allocation `json:"memory_allocation,omitempty"`
	Isolation  Isolation  `json:"isolation,omitempty"`
}

// Allocation is how much of its memory domain a partition may allocate. The driver has the names in
// upper case, in compute_partition_mem_alloc_mode (Linux 7.1, amdgpu_gfx.c). It selects capping at each
// load, at each switch of the compute mode and after a reset of the GPU (amdgpu_xcp_init).
type Allocation string

// Allocation modes of the amdgpu driver.
const (
	Capping Allocation = "capping" // an equal share of the domain
	All     Allocation = "all"     // the whole domain
)

// Allocations lists every allocation mode, that of a new driver first.
func Allocations() []Allocation { return []Allocation{Capping, All} }

// ParseAllocation returns the allocation mode of exactly that name.
func ParseAllocation(s string) (Allocation, error) {
	return parseMode("memory allocation", s, Allocations())
}

// Isolation is whether the driver runs one process at a time on a partition and clears its registers and local
// memory in between. A GPU whose partitions differ, or have another mode of isolation, has the driver's
// numbers: "1 0 2". They are in enforce_isolation, one for each partition (Linux 6.12, amdgpu_gfx.c). A load of the
// driver sets them all. A switch of the compute mode keeps them by the index of the partition.
type Isolation string

// Isolation of all partitions of a GPU.
const (
	Isolated    Isolation = "on"  // 1 for each partition
	NotIsolated Isolation = "off" // 0 for each partition
)

// IsolationOf returns the isolation that a profile sets with a Boolean.
func IsolationOf(on bool) Isolation {
	if on {
		return Isolated
	}
	return NotIsolated
}

// ParseIsolation returns the isolation with the driver's numbers, separated by spaces.
func ParseIsolation(numbers string) (Isolation, error) {
	each := strings.Fields(numbers)
	for _, n := range each {
		if strings.Trim(n, "0123456789") != "" {
			return "", fmt.Errorf("%q is no number", n)
		}
	}
	switch {
	case len(each) == 0:
		return "", fmt.Errorf("there is no number of a partition")
	case !slices.ContainsFunc(each, func(n string) bool { return n != "1" }):
		return Isolated, nil
	case !slices.ContainsFunc(each, func(n string) bool { return n != "0" }):
		return NotIsolated, nil
	}
	return Isolation(strings.Join(each, " ")), nil
}

// Numbers returns the driver's numbers for a GPU with that many partitions.
func (i Isolation) Numbers(partitions int) string {
	switch i {
	case Isolated:
		return strings.TrimSpace(strings.Repeat("1 ", partitions))
	case NotIsolated:
		return strings.TrimSpace(strings.Repeat("0 ", partitions))
	}
	return string(i)
}

// setting is one of the [Settings].
type setting struct {
	kind    Kind
	key     string // of a profile
	name    string // in messages
	missing string // a file that the driver does not show, and the kernels with it
	at      func(*Settings) *string
}

// settings lists the settings in the order of their steps.
func settings() []setting {
	return []setting{
		{SetAllocation, "memory-allocation", "memory allocation", "compute_partition_mem_alloc_mode, which Linux 7.1 and later have",
			func(s *Settings) *string { return (*string)(&s.Allocation) }},
		{SetIsolation, "isolation", "isolation", "enforce_isolation, which Linux 6.12 and later have for this GPU or for all",
			func(s *Settings) *string { return (*string)(&s.Isolation) }},
	}
}

// settingOf returns the setting of a step, and false for a step of another kind.
func settingOf(k Kind) (setting, bool) {
	for _, one := range settings() {
		if one.kind == k {
			return one, true
		}
	}
	return setting{}, false
}

// assignment returns the setting as it is in a profile: isolation = true.
func (s setting) assignment(from Settings) string {
	value := *s.at(&from)
	if s.kind == SetIsolation {
		return s.key + " = " + fmt.Sprint(value == string(Isolated))
	}
	return fmt.Sprintf("%s = %q", s.key, value)
}

// or returns the settings, with those of o where s has none.
func (s Settings) or(o Settings) Settings {
	return Settings{cmp.Or(s.Allocation, o.Allocation), cmp.Or(s.Isolation, o.Isolation)}
}

// same reports whether no step is needed between the settings. An unknown one equals every other one.
func (s Settings) same(o Settings) bool {
	return s.or(o) == o.or(s)
}

// text returns the known settings, each after a space.
func (s Settings) text() string {
	out := ""
	for _, one := range settings() {
		if v := *one.at(&s); v != "" {
			out += " " + v
		}
	}
	return out
}

// kept returns the settings of a GPU that a change keeps if the profile has none. Those of single partitions have no
// meaning after a change of their number.
func (s Settings) kept() Settings {
	if s.Isolation != Isolated && s.Isolation != NotIsolated {
		s.Isolation = ""
	}
	return s
}

// afterLoad returns the settings after the driver was loaded.
func (s Settings) afterLoad() Settings {
	return Settings{s.Allocation.known(Capping), s.Isolation.known(NotIsolated)}
}

// afterSwitch returns the settings after a switch of the compute mode. New partitions are not isolated.
func (s Settings) afterSwitch(from, to Compute) Settings {
	s.Allocation = s.Allocation.known(Capping)
	if s.Isolation == Isolated && slices.Index(ComputeModes(), to) > slices.Index(ComputeModes(), from) {
		s.Isolation = NotIsolated
	}
	return s
}

// known returns the value, "" if the driver has no such setting.
func (a Allocation) known(value Allocation) Allocation {
	if a == "" {
		return ""
	}
	return value
}

func (i Isolation) known(value Isolation) Isolation {
	if i == "" {
		return ""
	}
	return value
}

// lacks returns the first wanted setting that the driver does not have, nil for none.
func (s Settings) lacks(want Settings) *setting {
	for _, one := range settings() {
		if *one.at(&want) != "" && *one.at(&s) == "" {
			return &one
		}
	}
	return nil
}
