// Package text formats values for messages.
package text

import (
	"fmt"
	"strings"
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
