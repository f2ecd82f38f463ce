package top

import (
	"fmt"
	"strings"

	"dcm/internal/frontends/status"
	"dcm/internal/text"
)

// load is the use of one GPU: the sum of its partitions.
type load struct {
	gpu, mode   string
	parts, held int
	used, size  uint64
	unused      bool    // the memory use of a partition is unknown
	busy        float64 // mean of the known values, in percent
	known       int     // partitions with a known value
}

// loads returns the use of each GPU.
func loads(u status.Usage) []load {
	var out []load
	for _, p := range u.Parts {
		if n := len(out); n == 0 || out[n-1].gpu != p.GPU {
			out = append(out, load{gpu: p.GPU, mode: p.Mode})
		}
		l := &out[len(out)-1]
		l.add(p)
	}
	return out
}

func (l *load) add(p status.PartUse) {
	if l.parts++; l.mode != p.Mode {
		l.mode = "MIG" // instances of several sizes
	}
	if len(p.Holders) > 0 {
		l.held++
	}
	l.size += p.Memory
	if p.Used == nil {
		l.unused = true
	} else {
		l.used += *p.Used
	}
	if p.Busy != nil {
		l.busy = (l.busy*float64(l.known) + *p.Busy) / float64(l.known+1)
		l.known++
	}
}

// The edges of a bar. The screen colours what is between them.
const (
	barBegin = "▕"
	barEnd   = "▏"
)

// line returns the line of a GPU with a bar of its load.
func (l load) line(width int) string {
	busy, memory := unknown, unknown
	if l.known > 0 {
		busy = fmt.Sprintf("%.0f %%", l.busy)
	}
	if !l.unused && l.size > 0 {
		memory = formatBytes(l.used) + " of " + formatBytes(l.size)
	}
	before := text.Pad(l.gpu, 12) + " " + text.Pad(text.CutMiddle(l.mode, 8), 8) + " "
	after := fmt.Sprintf(" %5s  %-15s %d/%d held", busy, memory, l.held, l.parts)
	cells := min(40, width-text.Width(before)-text.Width(after)-2)
	if cells < 4 {
		return before + after
	}
	filled := min(cells, int(l.busy/100*float64(cells)+0.5))
	if filled == 0 && l.busy > 0 {
		filled = 1
	}
	return before + barBegin + strings.Repeat("█", filled) + strings.Repeat("░", cells-filled) + barEnd + after
}

// colour returns the control sequence for a load.
func (l load) colour() string {
	switch {
	case l.known == 0 || l.busy < 1:
		return ""
	case l.busy < 50:
		return "\x1b[32m"
	case l.busy < 90:
		return "\x1b[33m"
	}
	return "\x1b[31m"
}

// painted colours the bar of a line.
func painted(line, colour string) string {
	begin, end := strings.Index(line, barBegin), strings.Index(line, barEnd)
	if colour == "" || begin < 0 || end < 0 {
		return line
	}
	begin += len(barBegin)
	return line[:begin] + colour + line[begin:end] + plain + line[end:]
}
