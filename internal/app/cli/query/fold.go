package query

import (
	"fmt"
	"slices"
	"strings"

	"dcm/internal/text"
)

// folded joins free partitions of one GPU that are alike and follow each other, so that the others are found.
func folded(all []usedPart) []usedPart {
	var out []usedPart
	var names, nodes []string // of the last element of out
	for _, p := range all {
		n := len(out) - 1
		if n < 0 || !out[n].freeLike(p) {
			out, names, nodes = append(out, p), []string{p.Name}, []string{p.RenderNode}
			continue
		}
		names, nodes = append(names, p.Name), append(nodes, p.RenderNode)
		out[n].Name, out[n].folded = text.Partitions(names), len(names)
		if slices.ContainsFunc(nodes, func(node string) bool { return !strings.HasPrefix(node, "/dev/dri/") }) {
			out[n].RenderNode = ""
		} else {
			out[n].RenderNode = span(nodes)
		}
		out[n].Card, out[n].DriverID = "", ""
	}
	return out
}

// freeLike reports whether both partitions are free and differ only in their names and nodes.
func (p usedPart) freeLike(o usedPart) bool {
	free := func(p usedPart) bool { return len(p.Holders) == 0 && len(p.Processes) == 0 }
	return free(p) && free(o) && p.GPU == o.GPU && p.Mode == o.Mode && p.Memory == o.Memory && p.NUMA == o.NUMA && p.used() == o.used() && p.busy() == o.busy() && p.ComputeUnits == o.ComputeUnits
}

// domains returns the memory domain of the partition. Partitions that are folded may have several.
func (p usedPart) domains() string {
	if p.folded > 0 {
		return "-"
	}
	return fmt.Sprint(p.Domain)
}

// each returns a value that each of the folded partitions has.
func (p usedPart) each(value string) string {
	if p.folded == 0 || value == "-" {
		return value
	}
	return fmt.Sprintf("%d × %s", p.folded, value)
}
