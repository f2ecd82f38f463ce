package status

import (
	"fmt"
	"slices"
	"strings"
)

// Shape is the division of a GPU: two modes (AMD), or a list of MIG profiles (NVIDIA).
type Shape struct {
	Compute string   `json:"compute,omitempty"` // "CPX"
	Memory  string   `json:"memory,omitempty"`  // "NPS4"; "" if the GPU has no memory modes
	Slices  []string `json:"slices,omitempty"`  // "3g.40gb", "4g.40gb"
	Whole   string   `json:"whole,omitempty"`   // why there are no slices: "MIG off"
}

func (s Shape) empty() bool { return s.Equal(Shape{}) }

// Equal reports whether both shapes are the same.
func (s Shape) Equal(o Shape) bool {
	return s.Compute == o.Compute && s.Memory == o.Memory && s.Whole == o.Whole && slices.Equal(s.Slices, o.Slices)
}

// String returns the short form: "CPX/NPS4", "2 × 3g.40gb", "MIG off".
func (s Shape) String() string {
	switch {
	case len(s.Slices) > 0:
		return runs(s.Slices)
	case s.Whole != "":
		return s.Whole
	case s.Memory == "":
		return s.Compute
	}
	return s.Compute + "/" + s.Memory
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
