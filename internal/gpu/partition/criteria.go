package partition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Criteria restrict which partitions are requested. The zero value accepts any.
type Criteria struct {
	Vendor Vendor // 0: any
	Mode   string // "CPX", "CPX/NPS4", "3g.40gb"; "": any
}

// ParseCriteria accepts the name of a vendor, and a mode or a MIG profile. "" is any.
func ParseCriteria(vendor, mode string) (Criteria, error) {
	s := Criteria{Mode: mode}
	for _, v := range vendors() {
		if vendor == v.Name() {
			s.Vendor = v
		}
	}
	if vendor != "" && s.Vendor == 0 {
		return Criteria{}, fmt.Errorf("vendor is %q; accepted are %s", vendor, List(vendorNames()))
	}
	if mode == "" {
		return s, nil
	}
	of, err := vendorOfMode(mode)
	switch {
	case err != nil:
		return Criteria{}, err
	case s.Vendor != 0 && s.Vendor != of:
		return Criteria{}, fmt.Errorf("mode %s is for partitions of %s (want one for %s)", mode, of, s.Vendor)
	}
	return s, nil
}

// vendorOfMode returns the vendor whose partitions can have the mode.
func vendorOfMode(mode string) (Vendor, error) {
	if p, err := ParseMIGProfile(mode); err == nil && p.String() == mode {
		return NVIDIA, nil
	}
	compute, memory, both := strings.Cut(mode, "/")
	_, err := ParseCompute(compute)
	if both && err == nil {
		_, err = ParseMemory(memory)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no mode of a partition; accepted are a compute mode, such as CPX or CPX/NPS4, and a MIG profile, such as 3g.40gb", mode)
	}
	return AMD, nil
}

// Any reports whether the criteria accept every partition.
func (s Criteria) Any() bool { return s == Criteria{} }

// MayMatch reports whether a partition of the vendor can meet the criteria.
func (s Criteria) MayMatch(v Vendor) bool {
	of := s.Vendor
	if of == 0 && s.Mode != "" {
		of, _ = vendorOfMode(s.Mode) // validated by ParseCriteria
	}
	return of == 0 || of == v
}

// String returns the criteria for a message: "3g.40gb", "amd", "nvidia 3g.40gb".
func (s Criteria) String() string {
	return strings.TrimSpace(s.Vendor.Name() + " " + s.Mode)
}

// KindOf returns the kind of a partition, "amd CPX/NPS4": its vendor, and its mode or MIG
// profile.
func KindOf(v Vendor, mode string) string { return v.Name() + " " + mode }

// NoMatchError means that no partition of the node meets the criteria.
type NoMatchError struct {
	Criteria  Criteria
	Available []string // kinds of the node's partitions
}

func (e *NoMatchError) Error() string {
	return fmt.Sprintf("there is no partition %s: there are %s", e.Criteria, cmp.Or(List(e.Available), "none"))
}

// Match returns the kinds that meet the criteria, nil if the criteria accept any. It returns
// a [NoMatchError] if there is none.
func (s Criteria) Match(there []string) ([]string, error) {
	if s.Any() {
		return nil, nil
	}
	var out, all []string
	for _, kind := range there {
		if slices.Contains(all, kind) {
			continue
		}
		all = append(all, kind)
		vendor, mode, _ := strings.Cut(kind, " ")
		compute, _, _ := strings.Cut(mode, "/")
		if (s.Vendor == 0 || s.Vendor.Name() == vendor) && (s.Mode == "" || s.Mode == mode || s.Mode == compute) {
			out = append(out, kind)
		}
	}
	if out == nil {
		return []string{}, &NoMatchError{s, all}
	}
	return out, nil
}
