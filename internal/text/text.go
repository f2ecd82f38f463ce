// Package text formats values for messages.
package text

import (
	"fmt"
	"strings"
	"time"
)

// Count returns a number with its noun: "1 step", "2 steps".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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

// Duration returns a duration in at most two units, for people: "42 s", "12 min", "3 h 5 min", "2 d 4 h".
func Duration(d time.Duration) string {
	switch d = max(0, d); {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}
