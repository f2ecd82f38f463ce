package top

import (
	"fmt"
	"strings"
	"unicode"

	"dcm/internal/sanitize"
)

// isWide reports whether a character takes two columns on a terminal (Unicode Standard Annex
// 11, W and F), by block.
func isWide(r rune) bool {
	for _, b := range [][2]rune{
		{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6},
		{0x1f300, 0x1f64f}, {0x1f680, 0x1faff}, {0x20000, 0x3fffd},
	} {
		if r >= b[0] && r <= b[1] {
			return true
		}
	}
	return false
}

// displayWidth returns how many columns the text takes.
func displayWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case isWide(r):
		return 2
	}
	return 1
}

const cut = '…'

// fit pads the text to the width, or cuts out its middle. The end is kept, since names of units often
// differ there.
func fit(s string, width int, right bool) string {
	s = sanitize.Text(s)
	if over := displayWidth(s) - width; over > 0 {
		s = cutMiddle(s, width)
	}
	fill := strings.Repeat(" ", max(0, width-displayWidth(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// cutMiddle replaces the middle of the text by "…", so that it fits into the width.
func cutMiddle(s string, width int) string {
	if width < 1 {
		return ""
	}
	runes := []rune(s)
	head, tail := 0, len(runes)
	for left := width - 1; left > 0 && head < tail; {
		at := head
		if len(runes)-tail < head {
			at = tail - 1
		}
		if left -= runeWidth(runes[at]); left < 0 {
			break
		}
		if at == head {
			head++
		} else {
			tail--
		}
	}
	return string(runes[:head]) + string(cut) + string(runes[tail:])
}

// cutEnd cuts the text off at the width.
func cutEnd(s string, width int) string {
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > width {
			return s[:i]
		}
	}
	return s
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
