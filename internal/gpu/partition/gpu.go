package partition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/sorting"
)

// Address is a PCI address in the kernel's form, "0000:0c:00.0": domain, bus, device and
// function in lower-case hexadecimal.
type Address string

// ParseAddress accepts a full PCI address in either case. Without a domain the address is in
// domain 0000.
func ParseAddress(s string) (Address, error) {
	full := strings.ToLower(s)
	if strings.Count(full, ":") == 1 {
		full = "0000:" + full
	}
	if !isAddress(full) {
		return "", fmt.Errorf("%q is not a PCI address like 0000:0c:00.0", s)
	}
	return Address(full), nil
}

// isAddress reports whether s has four to eight digits of a domain, two of a bus, a device up to 1f
// and a function up to 7. It uses no regular expression, because each start of each program would
// compile it.
func isAddress(s string) bool {
	domain, rest, _ := strings.Cut(s, ":")
	return len(domain) >= 4 && len(domain) <= 8 && areHex(domain) &&
		len(rest) == len("0c:00.0") && areHex(rest[:2]) && rest[2] == ':' &&
		(rest[3] == '0' || rest[3] == '1') && areHex(rest[4:5]) && rest[5] == '.' && rest[6] >= '0' && rest[6] <= '7'
}

func areHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// Compare orders addresses by number, as the PCI bus does. A five-digit domain comes after
// 0000.
func (a Address) Compare(b Address) int {
	if n := len(a) - len(b); n != 0 {
		return n
	}
	return strings.Compare(string(a), string(b))
}

// MaxPartitions is the largest number of partitions of one GPU: eight XCCs in CPX on MI300X and later,
// and seven compute instances with MIG.
const MaxPartitions = 8

// GPU is the current state of one partitionable GPU. It is one PCI function with any number
// of partitions.
type GPU struct {
	Address Address
	Vendor  Vendor
	Device  uint16 // PCI device id
	XCC     int    // accelerator dies (XCC) of the GPU; 0 if unknown
	Hive    uint64 // XGMI hive id; 0 if it is in no hive

	Compute          Compute   // current compute mode
	AvailableCompute []Compute // listed by the device for its current memory mode; nil: no list
	Memory           Memory    // current memory mode; "" if the device shows none
	AvailableMemory  []Memory  // listed by the device; nil: the memory mode cannot be changed
	ReadOnly         bool      // modes can only be read (an SR-IOV virtual function)
	Settings                   // of a GPU with modes

	// Set if the driver lists pairs of modes:
	SupportedCompute []Compute            // with any memory mode; nil: not listed
	MemoryFor        map[Compute][]Memory // memory modes of a compute mode; a missing entry is unknown

	// Set instead of the modes if the GPU has MIG:
	MIG             *MIG              // current geometry; nil: no MIG
	MIGPending      bool              // the next reset of the GPU switches MIG to the other state
	Profiles        []InstanceProfile // GPU instance profiles of the driver; nil: not reported, for example with MIG off
	ModeResetsGPU   bool              // switching MIG resets the GPU
	GeometryBlocked string            // why instances cannot be changed; "" if they can
	ModeBlocked     string            // why MIG cannot be switched; "" if it can

	// InstanceUsers are the users of MIG instances by their first memory slot. The planner interrupts
	// as few users as possible. nil: all instances are equal.
	InstanceUsers map[int][]InstanceUser

	// Made are the instances that leases have made, or are making, on a dynamic GPU, with their
	// placements. See [Group.Dynamic].
	Made []Instance `json:"-"`

	// Missing are the GPUs of the node that are missing now, of all vendors. It is the same list for each GPU
	// of the node.
	Missing []Absent `json:"-"`

	// MadeMode is the compute mode that leases have set, or are setting, on a dynamic GPU.
	MadeMode MadeMode `json:"-"`

	// NoRoomFor is a geometry for which the driver did not create the missing instances next to those
	// that stay. No instance stays for it. The zero value is none.
	NoRoomFor Shape

	SubVendor, SubDevice uint16 // of the board; 0 if unknown
}

// InstanceUser is a unit or process that uses a MIG instance.
type InstanceUser struct {
	Name   string `json:"name"`
	Blocks bool   `json:"blocks,omitempty"` // a change does not stop it, so that the instance cannot be destroyed
}

// Mode is the pair of modes of one GPU.
type Mode struct {
	Compute Compute `json:"compute,omitempty"`
	Memory  Memory  `json:"memory,omitempty"` // "" if the GPU shows none
}

// String returns the short form, "CPX/NPS4".
func (m Mode) String() string {
	if m.Memory == "" {
		return string(m.Compute)
	}
	return string(m.Compute) + "/" + string(m.Memory)
}

// Mode returns the current modes of the GPU.
func (g GPU) Mode() Mode { return Mode{g.Compute, g.Memory} }

// Shape returns the current shape of the GPU.
func (g GPU) Shape() Shape {
	if g.MIG != nil {
		return Shape{MIG: g.MIG}
	}
	return Shape{Mode: g.Mode(), Settings: g.Settings}
}

// Partitions returns the current number of partitions. With MIG off it is 1.
func (g GPU) Partitions() int {
	if g.MIG != nil {
		return g.MIG.Partitions()
	}
	return g.Compute.Partitions(g.XCCCount())
}

// XCCCount returns the number of XCCs of the GPU, from the table of models if the driver does not report
// it; 0 if it is unknown.
func (g GPU) XCCCount() int {
	if g.XCC > 0 {
		return g.XCC
	}
	m, _ := LookupModel(g.Vendor, g.Device)
	return m.XCC
}

// Kinds returns the kinds of the GPU's partitions in their order.
func (g GPU) Kinds() []string {
	if g.MIG == nil || g.MIG.Off {
		return slices.Repeat([]string{KindOf(g.Vendor, g.Shape().String())}, g.Partitions())
	}
	list := slices.Clone(g.MIG.Instances)
	sorting.By(list, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
	var out []string
	for _, i := range list {
		for _, name := range i.Compute {
			out = append(out, KindOf(g.Vendor, name))
		}
		if len(i.Compute) == 0 {
			out = append(out, KindOf(g.Vendor, i.Profile))
		}
	}
	return out
}

// Selector names a GPU in a profile, by PCI address or by index among the partitionable GPUs
// in PCI order.
type Selector struct {
	Address Address // "" if the selector is an index
	Index   int
}

// ParseSelector accepts a PCI address or a decimal index.
func ParseSelector(s string) (Selector, error) {
	if n, err := strconv.ParseUint(s, 10, 16); err == nil {
		return Selector{Index: int(n)}, nil
	}
	a, err := ParseAddress(s)
	if err != nil {
		return Selector{}, fmt.Errorf("%q is neither a PCI address like 0000:0c:00.0 nor an index", s)
	}
	return Selector{Address: a}, nil
}

func (s Selector) String() string {
	if s.Address != "" {
		return string(s.Address)
	}
	return strconv.Itoa(s.Index)
}

// find returns the position of the selected GPU in gpus, which must be in PCI order. The error is a
// [MissingError] if it is missing now.
func (s Selector) find(gpus []GPU) (int, error) {
	a := s.Address
	if a == "" {
		if len(gpus) == 0 {
			return 0, fmt.Errorf("there is no GPU with index %d: this node has no GPUs of that kind", s.Index)
		}
		all := numbered(gpus)
		if s.Index < 0 || s.Index >= len(all) {
			return 0, fmt.Errorf("there is no GPU with index %d: this node has %d (0 to %d)", s.Index, len(all), len(all)-1)
		}
		a = all[s.Index]
	}
	i := slices.IndexFunc(gpus, func(g GPU) bool { return g.Address == a })
	switch {
	case i >= 0:
		return i, nil
	case s.Address == "" || isMissing(a, gpus):
		return 0, &MissingError{s, a}
	}
	return 0, fmt.Errorf("there is no partitionable GPU at %s: this node has %s", a, listFew(addresses(gpus)))
}

func addresses(gpus []GPU) []Address {
	out := make([]Address, len(gpus))
	for i, g := range gpus {
		out[i] = g.Address
	}
	return out
}

// byAddress returns a copy of gpus in PCI order.
func byAddress(gpus []GPU) []GPU {
	out := slices.Clone(gpus)
	sorting.By(out, func(a, b GPU) int { return a.Address.Compare(b.Address) })
	return out
}

// Select returns the GPUs that the selectors name, nil for no selectors. Each selector
// without a GPU adds an error; the others are returned.
func Select(list []Selector, gpus []GPU) ([]Address, error) {
	gpus = byAddress(gpus)
	var out []Address
	var errs []error
	for _, s := range list {
		if s.Address == "" && mixed(gpus) {
			errs = append(errs, fmt.Errorf("GPU %s is ambiguous, since AMD and NVIDIA GPUs are counted separately: use the PCI address", s))
			continue
		}
		i, err := s.find(gpus)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, gpus[i].Address)
	}
	return out, errors.Join(errs...)
}
