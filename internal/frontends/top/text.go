package top

import (
	"fmt"
	"strings"

	"dcm/internal/sanitize"
	"dcm/internal/text"
)

// fit pads the text to the width, or cuts out its middle. The end is kept, since names of units often
// differ there.
func fit(s string, width int, right bool) string {
	s = text.CutMiddle(sanitize.Text(s), width)
	if right {
		return strings.Repeat(" ", max(0, width-text.Width(s))) + s
	}
	return text.Pad(s, width)
}

// formatBytes returns a number of bytes in at most six characters: "512K", "12.5G".
func formatBytes(bytes uint64) string {
	const unit = 1024
	v, units := float64(bytes), "KMGTPE"
	if bytes < unit {
		return fmt.Sprintf("%dB", bytes)
	}
	i := -1
	for ; v >= unit && i < len(units)-1; i++ {
		v /= unit
	}
	if v >= 999.95 {
		return fmt.Sprintf("%.0f%c", v, units[i])
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + string(units[i])
}
