package text

import (
	"strings"
	"testing"
)

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "é…": 2, "日本": 4, "e\u0301": 1, "\x1b[32m●\x1b[0m ok": 4} {
		if got := Width(s); got != want {
			t.Errorf("%q: width %d, want %d", s, got, want)
		}
	}
}

func TestCutMiddle(t *testing.T) {
	for _, tt := range []struct {
		s     string
		width int
		want  string
	}{
		{"short", 5, "short"}, {"abcdefghij", 5, "ab…ij"}, {"abcdefghij", 1, "…"}, {"abc", 0, ""}, {"日本語日本語", 5, "日…語"},
	} {
		if got := CutMiddle(tt.s, tt.width); got != tt.want {
			t.Errorf("%q at %d: %q, want %q", tt.s, tt.width, got, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		s           string
		width, hang int
		want        string
	}{
		{"a short line", 12, 2, "a short line"},
		{"one two three four", 9, 2, "one two\n  three\n  four"},
		{"  indented at first", 10, 4, "  indented\n    at\n    first"},
		{"/a/path/that/is/too/long for it", 10, 2, "/a/path/that/is/too/long\n  for it"},
		{"a  b   c", 6, 0, "a  b\nc"},
		{"\x1b[31mproblem:\x1b[0m two words", 13, 3, "\x1b[31mproblem:\x1b[0m two\n   words"},
		{"", 5, 2, ""},
	} {
		if got := Wrap(tt.s, tt.width, tt.hang); got != tt.want {
			t.Errorf("%q at %d: %q, want %q", tt.s, tt.width, got, tt.want)
		}
	}
}

// No line is longer than the width if the words are short enough, and no word is lost.
func TestWrap_KeepsWords(t *testing.T) {
	words := strings.Repeat("alpha beta gamma-delta ", 20)
	for width := 15; width < 200; width++ {
		wrapped := Wrap(words, width, 3)
		for line := range strings.Lines(wrapped) {
			if n := Width(strings.TrimRight(line, " \n")); n > width {
				t.Fatalf("width %d: a line of %d: %q", width, n, line)
			}
		}
		if got := strings.Join(strings.Fields(wrapped), " "); got != strings.TrimSpace(words) {
			t.Fatalf("width %d: the words are %q", width, got)
		}
	}
}
