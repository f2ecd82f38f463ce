package text

import (
	"strings"
	"unicode"
)

// Width returns how many columns of a terminal a text takes. Control sequences of colours take none.
func Width(s string) int {
	n, skip := 0, 0
	for i, r := range s {
		if i < skip {
			continue
		}
		if length := sequence(s[i:]); length > 0 {
			skip = i + length
			continue
		}
		n += RuneWidth(r)
	}
	return n
}

// sequence returns the length of the control sequence for a colour that a text begins with, or 0.
func sequence(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	return strings.IndexByte(s, 'm') + 1
}

// RuneWidth returns how many columns a character takes.
func RuneWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case isWide(r):
		return 2
	}
	return 1
}

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

// CutMiddle replaces the middle of a text without colours by "…", so that it fits into the width.
func CutMiddle(s string, width int) string {
	if Width(s) <= width {
		return s
	}
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
		if left -= RuneWidth(runes[at]); left < 0 {
			break
		}
		if at == head {
			head++
		} else {
			tail--
		}
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}

// CutEnd cuts a text without colours off at the width.
func CutEnd(s string, width int) string {
	n := 0
	for i, r := range s {
		if n += RuneWidth(r); n > width {
			return s[:i]
		}
	}
	return s
}

// Pad appends spaces up to the width.
func Pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-Width(s))) }

// Wrap breaks a line at spaces into lines of at most width columns. Lines after the first begin with
// hang spaces. A longer word gets a line of its own.
func Wrap(line string, width, hang int) string {
	if Width(line) <= width {
		return line
	}
	var b strings.Builder
	at, begun := 0, false
	rest := line
	for rest != "" {
		spaces := len(rest) - len(strings.TrimLeft(rest, " "))
		end := strings.IndexByte(rest[spaces:], ' ')
		if end < 0 {
			end = len(rest) - spaces
		}
		gap, word := rest[:spaces], rest[spaces:spaces+end]
		rest = rest[spaces+end:]
		if begun && at+spaces+Width(word) > width {
			gap, at = "\n"+strings.Repeat(" ", hang), hang-spaces
		}
		b.WriteString(gap + word)
		at += spaces + Width(word)
		begun = begun || word != ""
	}
	return b.String()
}
