// Package text formats values for messages.
package text

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Count returns a number with its noun: "1 step", "2 steps".
func Count(n int, noun string) string { return Plural(n, noun, noun+"s") }

// Plural is [Count] for a noun with another plural: "1 process", "2 processes".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// NUMANode returns the number of a NUMA node, "-" if it is negative: the firmware does not report it.
func NUMANode(node int) string {
	if node < 0 {
		return "-"
	}
	return strconv.Itoa(node)
}

// GiB returns a number of bytes in GiB, to a tenth: "8 GiB", "7.5 GiB".
func GiB(bytes uint64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<30)), ".0") + " GiB"
}

// OneLine joins the lines of a message with "; ".
func OneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }

// Few joins the first five names, and adds how many more there are.
func Few(names []string) string {
	const limit = 5
	text := strings.Join(names[:min(limit, len(names))], ", ")
	if more := len(names) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Sentence returns a phrase with a capital letter and a period.
func Sentence(phrase string) string { return strings.ToUpper(phrase[:1]) + phrase[1:] + "." }

// Duration returns a duration in at most two units, rounded, for people: "42 s", "12 min", "3 h 5 min", "2 d 4 h".
func Duration(d time.Duration) string {
	d = max(0, d)
	tenths, seconds, minutes, hours := d.Round(100*time.Millisecond), d.Round(time.Second), d.Round(time.Minute), d.Round(time.Hour)
	switch {
	case tenths < 10*time.Second:
		return fmt.Sprintf("%.1f s", tenths.Seconds())
	case seconds < 2*time.Minute:
		return fmt.Sprintf("%d s", int(seconds.Seconds()))
	case minutes < time.Hour:
		return fmt.Sprintf("%d min", int(minutes.Minutes()))
	case minutes < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(minutes.Hours()), int(minutes.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(hours.Hours())/24, int(hours.Hours())%24)
}

// Partitions joins the names of partitions, those of each GPU as a list of ranges:
// "0000:05:00.0-[0-3,6] 0000:26:00.0-1".
func Partitions(names []string) string {
	var gpus []string
	indexes := make(map[string][]int)
	for _, name := range names {
		gpu, index := name, -1 // -1: a name without an index
		if at := strings.LastIndexByte(name, '-'); at >= 0 {
			if i, err := strconv.Atoi(name[at+1:]); err == nil {
				gpu, index = name[:at], i
			}
		}
		if indexes[gpu] == nil {
			gpus = append(gpus, gpu)
		}
		indexes[gpu] = append(indexes[gpu], index)
	}
	for i, gpu := range gpus {
		switch list := indexes[gpu]; {
		case len(list) > 1:
			gpus[i] = gpu + "-[" + ranges(list) + "]"
		case list[0] >= 0:
			gpus[i] = fmt.Sprintf("%s-%d", gpu, list[0])
		}
	}
	return strings.Join(gpus, " ")
}

// ranges joins numbers: "0-3,6".
func ranges(list []int) string {
	slices.Sort(list)
	var out []string
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if one := strconv.Itoa(list[i]); last == i {
			out = append(out, one)
		} else {
			out = append(out, fmt.Sprintf("%s-%d", one, list[last]))
		}
		i = last + 1
	}
	return strings.Join(out, ",")
}
