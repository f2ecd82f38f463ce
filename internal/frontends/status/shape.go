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
	Slices     []string `json:"slices,omitempty"`            // "3g.40gb", "4g.40gb"
	Whole      string   `json:"whole,omitempty"`             // why there are no slices: "MIG off"
}

func (s Shape) empty() bool { return s.Equal(Shape{}) }

// Equal reports whether both shapes are the same. An unknown allocation equals every other one.
func (s Shape) Equal(o Shape) bool {
	if s.Allocation != o.Allocation && s.Allocation != "" && o.Allocation != "" {
		return false
	}
	return s.Compute == o.Compute && s.Memory == o.Memory && s.Whole == o.Whole && slices.Equal(s.Slices, o.Slices)
}

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
