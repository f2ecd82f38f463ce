package partition

import (
	"fmt"
	"slices"
	"strings"
)

// MIGProfile is the parsed name of a MIG profile. "1c.3g.20gb+me" is a compute instance of
// one slice in a GPU instance of three.
type MIGProfile struct {
	Compute   int    // slices of the compute instance; 0: all of the GPU instance
	Slices    int    // compute slices of the GPU instance
	Memory    int    // GB, rounded as in NVIDIA's names
	Attribute string // "+me", "+me.all", "+gfx", "-me"; "" for none
}

// ParseMIGProfile accepts a name as nvidia-smi and mig-parted write it, with or without the
// prefix "MIG ".
func ParseMIGProfile(s string) (MIGProfile, error) {
	var p MIGProfile
	rest, ok := strings.TrimPrefix(s, "MIG "), true
	if len(rest) > 1 && rest[1] == 'c' {
		p.Compute, rest, ok = number(rest, "c.", 9)
	}
	if ok {
		p.Slices, rest, ok = number(rest, "g.", 9)
	}
	if ok {
		p.Memory, rest, ok = number(rest, "gb", 9999)
	}
	p.Attribute = rest
	if !ok || !slices.Contains([]string{"", "+me", "+me.all", "+gfx", "-me"}, rest) {
		return MIGProfile{}, fmt.Errorf("%q is not a MIG profile like 1g.10gb, 1c.3g.40gb or 1g.10gb+me", s)
	}
	if p.Compute > p.Slices {
		return MIGProfile{}, fmt.Errorf("%q has more compute slices than its GPU instance: at most %dc", s, p.Slices)
	}
	if p.Compute == 5 || p.Compute == 6 {
		return MIGProfile{}, fmt.Errorf("%q has %d compute slices, and there are compute instances of 1, 2, 3, 4 and 7", s, p.Compute)
	}
	return p, nil
}

// number parses a number from 1 to most without leading zeros, followed by letters.
func number(s, letters string, most int) (n int, rest string, ok bool) {
	digits := 0
	for digits < len(s) && digits < 4 && s[digits] >= '0' && s[digits] <= '9' {
		n = 10*n + int(s[digits]-'0')
		digits++
	}
	rest, ok = strings.CutPrefix(s[digits:], letters)
	return n, rest, ok && digits > 0 && s[0] != '0' && n <= most
}

// String returns the name.
func (p MIGProfile) String() string {
	if p.Compute > 0 {
		return fmt.Sprintf("%dc.%s", p.Compute, p.GPUInstance())
	}
	return p.GPUInstance()
}

// GPUInstance returns the name of the GPU instance profile.
func (p MIGProfile) GPUInstance() string {
	return fmt.Sprintf("%dg.%dgb%s", p.Slices, p.Memory, p.Attribute)
}

// spansGPUInstance reports whether the compute instance has all slices of its GPU instance.
func (p MIGProfile) spansGPUInstance() bool { return p.Compute == 0 || p.Compute == p.Slices }

// slices returns the number of slices of the compute instance.
func (p MIGProfile) slices() int {
	if p.spansGPUInstance() {
		return p.Slices
	}
	return p.Compute
}
