package amdsmi

import (
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for _, c := range []struct {
		text string
		want [4]int
		ok   bool
	}{
		{"24.5.2.0", [4]int{24, 5, 2, 0}, true},
		{"27.1.0", [4]int{27, 1, 0, 0}, true},
		{"26.1", [4]int{26, 1, 0, 0}, true},
		{"26.1.0+5df6c765", [4]int{26, 1, 0, 0}, true},
		{"26.1.0-rc1", [4]int{26, 1, 0, 0}, true},
		{"", [4]int{}, false},
		{"27", [4]int{}, false},
		{"27.", [4]int{}, false},
		{"27.1.0.0.0", [4]int{}, false},
		{"27.1.0 ", [4]int{}, false},
		{"27.-1.0", [4]int{}, false},
		{"v27.1.0", [4]int{}, false},
		{"27.1.0\x00junk", [4]int{}, false},
		{"99999999999.1.0", [4]int{}, false},
		{strings.Repeat("7", 100), [4]int{}, false},
	} {
		got, err := ParseVersion(c.text)
		if (err == nil) != c.ok {
			t.Errorf("ParseVersion(%q): error %v, want ok %v", c.text, err, c.ok)
		}
		if got.number != c.want {
			t.Errorf("ParseVersion(%q) = %v, want %v", c.text, got.number, c.want)
		}
	}
}
