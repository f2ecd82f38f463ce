package query

import (
	"fmt"
	"strings"

	"dcm/internal/leases/lease"
)

// Measures of the picture, in pixels.
const (
	svgMargin  = 16
	svgLabel   = 90 // width of the name of a NUMA node
	svgCell    = 16 // side of a partition
	svgStep    = 19 // from one partition to the next
	svgDomain  = 6  // more between two memory domains
	svgGPUGap  = 24
	svgRow     = 64
	svgLegend  = 440 // width of the legend
	svgCaption = 14  // from the name of a GPU to its partitions
)

// svgStyle has the colours, also those of dark pages. A free partition is empty.
const svgStyle = `<style>
text { font: 12px sans-serif; fill: #222 }
.box { fill: none; stroke: #888 }

.free { fill: none; stroke: #2a7d2a }
.lease { fill: #c77d00 }
.reserved { fill: #6a5acd }
.other { fill: #777 }

@media (prefers-color-scheme: dark) {
text { fill: #ddd }
.free { stroke: #6c6 }

.reserved { fill: #a99cff }
.other { fill: #aaa }
}
</style>
`

// svgKinds are the classes of partitions by their marks, in the order of the legend.
func svgKinds() []struct{ mark, class, text string } {
	return []struct{ mark, class, text string }{
		{markLease, "lease", "lease"}, {markReserved, "reserved", "reserved"}, {markOther, "other", "other use"}, {markFree, "free", "free"},
	}
}

// topologySVG draws the node as a picture: a row for each NUMA node, with a box for each GPU.
func topologySVG(book []lease.Allocation) string {
	var b strings.Builder
	name, width, y := shortNames(book), svgLegend, svgMargin
	for _, hive := range groupBy(book, func(p lease.Allocation) string { return hiveName(p.Hive) }) {
		for _, numa := range groupBy(hive, func(p lease.Allocation) string { return fmt.Sprint(p.NUMA) }) {
			svgText(&b, svgMargin, y+svgCaption+svgCell, svgRowName(numa[0]))
			x := svgMargin + svgLabel
			for _, gpu := range groupBy(numa, func(p lease.Allocation) string { return string(p.GPU) }) {
				svgText(&b, x, y+svgCaption-svgDomain, name(string(gpu[0].GPU)))
				x += svgGPU(&b, x, y+svgCaption, gpu) + svgGPUGap
			}
			width, y = max(width, x), y+svgRow
		}
	}
	x := svgMargin
	for _, k := range svgKinds() {
		svgCellAt(&b, x, y, k.class, k.text)
		svgText(&b, x+svgStep+svgDomain, y+svgCell-4, k.text)
		x += svgLegend / 4
	}
	height := y + svgCell + svgMargin
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" role=\"img\">\n<title>Partitions of the GPUs and their holders</title>\n%s%s</svg>\n",
		width, height, svgStyle, &b)
}

func svgRowName(p lease.Allocation) string {
	row := "node"
	if p.NUMA >= 0 {
		row = fmt.Sprintf("NUMA %d", p.NUMA)
	}
	return row
}

// svgGPU draws the partitions of a GPU in a box, and returns its width.
func svgGPU(b *strings.Builder, x, y int, gpu []lease.Allocation) int {
	at := svgDomain
	for i, p := range gpu {
		if i > 0 && gpu[i-1].Domain != p.Domain {
			at += svgDomain
		}
		title := p.Name + ": free"
		if !p.Free() {
			title = p.Name + ": " + strings.Join(p.Whose(), ", ")
		}
		for _, k := range svgKinds() {
			if k.mark == markOf(p) {
				svgCellAt(b, x+at, y+svgDomain, k.class, title)
			}
		}
		at += svgStep
	}
	width := at + svgDomain - (svgStep - svgCell)
	fmt.Fprintf(b, "<rect class=\"box\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n", x, y, width, svgCell+2*svgDomain)
	return width
}

// svgCellAt draws a partition. A viewer shows the title next to the pointer.
func svgCellAt(b *strings.Builder, x, y int, class, title string) {
	fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"><title>%s</title></rect>\n", class, x, y, svgCell, svgCell, svgEscape(title))
}

func svgText(b *strings.Builder, x, y int, s string) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", x, y, svgEscape(s))
}

func svgEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
