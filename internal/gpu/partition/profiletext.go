package partition

import (
	"fmt"
	"strings"

	"dcm/internal/text"
)

// String returns a short form without the memory mode: "CPX", "2 GPUs CPX; rest SPX". A group of all GPUs is its
// shape.
func (p Profile) String() string {
	var parts []string
	if p.Compute != "" {
		parts = append(parts, string(p.Compute))
	}
	if p.MIG != nil {
		parts = append(parts, p.MIG.String())
	}
	for _, g := range p.Groups {
		switch what := g.shapeText(); {
		case g.Rest && len(p.Groups) == 1:
			parts = append(parts, what)
		case g.Rest:
			parts = append(parts, "rest "+what)
		case len(g.GPUs) > 0:
			parts = append(parts, text.Count(len(g.GPUs), "GPU")+" "+what)
		default:
			parts = append(parts, text.Count(g.Count, "GPU")+" "+what)
		}
	}
	if len(p.Skip) > 0 {
		parts = append(parts, text.Count(len(p.Skip), "GPU")+" skipped")
	}
	return strings.Join(parts, "; ")
}

// shapeText returns the shape and the filter of a group, "3g.40gb, 1g.10gb on 0x2330".
func (g Group) shapeText() string {
	shape := string(g.Compute)
	switch {
	case g.MIG != nil:
		shape = g.MIG.String()
	case g.Family != "":
		shape = string(g.Family)
	}
	for i, f := range g.Devices {
		if i == 2 && len(g.Devices) > 3 {
			return fmt.Sprintf("%s and %d more", shape, len(g.Devices)-i)
		}
		shape += []string{" on ", ", "}[min(i, 1)] + fmt.Sprintf("0x%04x", f.Device)
	}
	return shape
}
