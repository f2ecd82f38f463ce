package partition

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MIGProfile is the name of a MIG profile in its parts, "1c.3g.20gb+me" being the
// compute instance of one slice in a GPU instance of three.
type MIGProfile struct {
	Compute   int    // slices of the compute instance; 0: all that the GPU instance has
	Slices    int    // compute slices of the GPU instance
	Memory    int    // GB, as the vendor rounds them
	Attribute string // "+me", "+me.all", "+gfx", "-me"; "" for none
}

var migForm = regexp.MustCompile(`^(?:([1-9])c\.)?([1-9])g\.([1-9][0-9]{0,3})gb(\+me\.all|\+me|\+gfx|-me)?$`)

// ParseMIGProfile accepts a name as nvidia-smi and mig-parted write it, with or
// without "MIG " before it.
func ParseMIGProfile(s string) (MIGProfile, error) {
	m := migForm.FindStringSubmatch(strings.TrimPrefix(s, "MIG "))
	if m == nil {
		return MIGProfile{}, fmt.Errorf("%q is not a MIG profile like 1g.10gb, 1c.3g.40gb or 1g.10gb+me", s)
	}
	p := MIGProfile{Attribute: m[4]}
	p.Compute, _ = strconv.Atoi(m[1]) // digits, or nothing
	p.Slices, _ = strconv.Atoi(m[2])
	p.Memory, _ = strconv.Atoi(m[3])
	if p.Compute > p.Slices {
		return MIGProfile{}, fmt.Errorf("%q has more compute slices than its GPU instance: at most %dc", s, p.Slices)
	}
	return p, nil
}

// String is the name.
func (p MIGProfile) String() string {
	if p.Compute > 0 {
		return fmt.Sprintf("%dc.%s", p.Compute, p.GPUInstance())
	}
	return p.GPUInstance()
}

// GPUInstance is the name of the GPU instance alone.
func (p MIGProfile) GPUInstance() string {
	return fmt.Sprintf("%dg.%dgb%s", p.Slices, p.Memory, p.Attribute)
}

// wholly tells whether the compute instance spans its GPU instance.
func (p MIGProfile) wholly() bool { return p.Compute == 0 || p.Compute == p.Slices }

// slices is how many slices the compute instance has.
func (p MIGProfile) slices() int {
	if p.wholly() {
		return p.Slices
	}
	return p.Compute
}
