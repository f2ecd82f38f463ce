package source

import "testing"

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"Expected a value.":                    "expected a value",
		"TOML files cannot contain\n controls": "TOML files cannot contain controls",
		"A key":                                "a key",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
