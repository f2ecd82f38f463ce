package console

import "strings"

// Bar returns a bar of that width between edges. A share above 0 fills at least one cell, and one below 1
// leaves one.
func Bar(width int, share float64) string {
	filled := int(share*float64(width) + 0.5)
	switch {
	case share >= 1:
		filled = width
	case share <= 0:
		filled = 0
	default:
		filled = min(max(filled, 1), width-1)
	}
	return "▕" + strings.Repeat("█", filled) + strings.Repeat("░", width-filled) + "▏"
}
