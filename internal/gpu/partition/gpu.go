package partition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dcm/internal/sorting"
)

// Address is a PCI address in the kernel's form, "0000:0c:00.0": domain, bus,
// device and function in lower-case hexadecimal.
type Address string

// ParseAddress accepts a full PCI address in either case, and one without its
// domain, which is then 0000.
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

// isAddress tells whether s is four to eight digits of a domain, ":", two of a bus, ":",
// a device up to 1f, "." and a function up to 7. It is no regular expression: every
// start of every program of dcm's would compile it.
func isAddress(s string) bool {
	domain, rest, _ := strings.Cut(s, ":")
	return len(domain) >= 4 && len(domain) <= 8 && areHex(domain) &&
		len(rest) == len("0c:00.0") && areHex(rest[:2]) && rest[2] == ':' &&
		(rest[3] == '0' || rest[3] == '1') && areHex(rest[4:5]) && rest[5] == '.' && rest[6] >= '0' && rest[6] <= '7'
}

func areHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// Compare orders addresses as the PCI bus does: by the numbers, not by the text,
// so that a five-digit domain comes after 0000.
func (a Address) Compare(b Address) int {
	if n := len(a) - len(b); n != 0 {
		return n
	}
	return strings.Compare(string(a), string(b))
}

// GPU is one partitionable GPU as it was seen: a PCI function, however many
// partitions it shows.
type GPU struct {
	Address Address
	Vendor  Vendor
	Device  uint16 // PCI device id
	XCC     int    // accelerated compute dies in the GPU; 0 where not known
	Hive    uint64 // XGMI hive id; 0 for a GPU that is in none

	Compute          Compute   // current compute mode
	AvailableCompute []Compute // what the device lists for its current memory mode; nil: it lists nothing
	Memory           Memory    // current memory mode; "" where the device shows none
	AvailableMemory  []Memory  // what the device lists; nil: the memory mode cannot be changed
	ReadOnly         bool      // modes can be read but not set (an SR-IOV virtual function)

	// Of a GPU with MIG, instead of modes:
	MIG             *MIG              // the current geometry; nil: it is not divided by MIG
	MIGPending      bool              // MIG is turned on or off, against that, with the GPU's next reset
	Profiles        []InstanceProfile // the GPU instances that it offers; nil: not told, as with MIG off
	ModeResetsGPU   bool              // to turn MIG on or off resets it
	GeometryBlocked string            // why its geometry cannot be changed; "" if it can
	ModeBlocked     string            // why MIG cannot be turned on or off; "" if it can

	SubVendor, SubDevice uint16 // of the board; 0 where not read
}

// Mode is the pair of modes of one GPU.
type Mode struct {
	Compute Compute `json:"compute,omitempty"`
	Memory  Memory  `json:"memory,omitempty"` // "" on a GPU that shows none
}

// String is the usual short form, "CPX/NPS4".
func (m Mode) String() string {
	if m.Memory == "" {
		return string(m.Compute)
	}
	return string(m.Compute) + "/" + string(m.Memory)
}

// Mode returns the modes the GPU has.
func (g GPU) Mode() Mode { return Mode{g.Compute, g.Memory} }

// Partitions returns how many partitions the GPU shows as it is divided now. With MIG
// off it is one.
func (g GPU) Partitions() int {
	if g.MIG != nil {
		return g.MIG.Partitions()
	}
	return g.Compute.Partitions(g.xcc())
}

func (g GPU) xcc() int {
	if g.XCC > 0 {
		return g.XCC
	}
	m, _ := LookupModel(g.Vendor, g.Device)
	return m.XCC
}

// Selector names a GPU in a profile: by PCI address, or by index among the
// partitionable GPUs in PCI order.
type Selector struct {
	Address Address // preferred; "" if the selector is an index
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

// find returns the position in gpus, which are in PCI order, of what s names.
func (s Selector) find(gpus []GPU) (int, error) {
	if s.Address == "" {
		if len(gpus) == 0 {
			return 0, fmt.Errorf("there is no GPU with index %d: this node has none that it could be", s.Index)
		}
		if s.Index < 0 || s.Index >= len(gpus) {
			return 0, fmt.Errorf("there is no GPU with index %d: this node has %d (0 to %d)", s.Index, len(gpus), len(gpus)-1)
		}
		return s.Index, nil
	}
	i := slices.IndexFunc(gpus, func(g GPU) bool { return g.Address == s.Address })
	if i < 0 {
		return 0, fmt.Errorf("there is no partitionable GPU at %s: this node has %s", s.Address, listFew(addresses(gpus)))
	}
	return i, nil
}

func addresses(gpus []GPU) []Address {
	out := make([]Address, len(gpus))
	for i, g := range gpus {
		out[i] = g.Address
	}
	return out
}

// inOrder returns a copy of gpus in PCI order.
func byAddress(gpus []GPU) []GPU {
	out := slices.Clone(gpus)
	sorting.By(out, func(a, b GPU) int { return a.Address.Compare(b.Address) })
	return out
}

// Select returns the GPUs that the selectors name, nil for no selectors at all; with
// an error for each that names none it returns the others.
func Select(list []Selector, gpus []GPU) ([]Address, error) {
	gpus = byAddress(gpus)
	var out []Address
	var errs []error
	for _, s := range list {
		if s.Address == "" && mixed(gpus) {
			errs = append(errs, fmt.Errorf("GPU %s may be one of two, since each vendor's are counted by themselves: give its address", s))
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
