package status

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/gpu/partition"
)

// Shape is the division of a GPU: two modes (AMD), or a list of MIG profiles (NVIDIA).
type Shape struct {
	Compute    string   `json:"compute,omitempty"`           // "CPX"
	Memory     string   `json:"memory,omitempty"`            // "NPS4"; "" if the GPU has no memory modes
	Allocation string   `json:"memory_allocation,omitempty"` // "capping", "all"; "" if the driver has no such setting
	Isolation  string   `json:"isolation,omitempty"`         // "on", "off", the driver's number of each partition, or "" if the driver has no such setting
	Slices     []string `json:"slices,omitempty"`            // "3g.40gb", "4g.40gb"
	Whole      string   `json:"whole,omitempty"`             // why there are no slices: "MIG off"
}

func (s Shape) empty() bool { return s.Equal(Shape{}) }

// Equal reports whether both shapes are the same. An unknown setting equals every other one.
func (s Shape) Equal(o Shape) bool {
	if !sameSetting(s.Allocation, o.Allocation) || !sameSetting(s.Isolation, o.Isolation) {
		return false
	}
	return s.Compute == o.Compute && s.Memory == o.Memory && s.Whole == o.Whole && slices.Equal(s.Slices, o.Slices)
}

// Isolated reports whether the driver isolates the processes of each partition.
func (s Shape) Isolated() bool { return s.Isolation == string(partition.Isolated) }

func sameSetting(a, b string) bool { return a == b || a == "" || b == "" }

// String returns the short form: "CPX/NPS4", "CPX/NPS4 (memory all)", "2 × 3g.40gb", "MIG off".
func (s Shape) String() string {
	switch {
	case len(s.Slices) > 0:
		return runs(s.Slices)
	case s.Whole != "":
		return s.Whole
	}
	text := s.Compute
	if s.Memory != "" {
		text += "/" + s.Memory
	}
	if s.Allocation == string(partition.All) {
		text += " (memory all)"
	}
	switch {
	case s.Isolated():
		text += " (isolated)"
	case s.Isolation != "" && s.Isolation != string(partition.NotIsolated):
		text += " (isolation " + s.Isolation + ")"
	}
	return text
}

// runs joins the items, with repeated ones as "2 × 3g.40gb".
func runs(all []string) string {
	var out []string
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n] == all[i] {
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("%d × %s", n, all[i]))
		} else {
			out = append(out, all[i])
		}
		i += n
	}
	return strings.Join(out, ", ")
}
