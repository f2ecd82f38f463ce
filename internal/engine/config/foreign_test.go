package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/configtest"
)

// Files with odd names are read, and their names are escaped in each message.
func TestLoad_EscapesFileNames(t *testing.T) {
	const odd = "z\xff\x1b[31m\u202e.toml"
	load := func(files configtest.Files) (*config.Config, string) {
		t.Helper()
		root := t.TempDir()
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c, err := config.Load(config.DefaultPaths(root))
		if err != nil {
			return nil, err.Error()
		}
		return c, strings.Join(append(c.Warnings, c.Source, c.Origin["p"]), "\n")
	}
	const profiles = "[profiles.p]\ncompute = \"SPX\"\n[profiles.q]\ncompute = \"SPX\"\n"
	for name, in := range map[string]configtest.Files{
		"selects":     {"etc/dcm/dcm.toml.d/" + odd: "profile = \"p\"\n" + profiles},
		"hides":       {"etc/dcm/dcm.toml": "profile = \"q\"\n" + profiles, "etc/dcm/dcm.toml.d/" + odd: "profile = \"p\"\n"},
		"is no TOML":  {"etc/dcm/dcm.toml.d/" + odd: "\x1b[31m"},
		"wrong value": {"etc/dcm/dcm.toml.d/" + odd: "profile = \"\\u001b\\u202e\"\n\"\\u001b\" = 1\n[gpu]\nlibrary = \"/\\u202e\"\n"},
		"no UTF-8":    {"etc/dcm/dcm.toml.d/" + odd: "profile = \"\xff\"\n"},
		"kernel's":    {"proc/cmdline": "dcm.profile=\xff\x1b[31m\u202e\n"},
	} {
		_, got := load(in)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
			t.Errorf("%s: message %q is not escaped", name, got)
		}
		if want := `z\xff\x1b[31m\u202e.toml`; !strings.Contains(got, want) && name != "kernel's" {
			t.Errorf("%s: %q does not name the file as %s", name, got, want)
		}
	}
}
