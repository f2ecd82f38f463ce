package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestASelectionWinsOverOtherDropins(t *testing.T) {
	p := files{
		"etc/dcm/dcm.toml":               "[profiles.a]\ncompute = \"SPX\"\n[profiles.\"b c\"]\ncompute = \"CPX\"\n",
		"etc/dcm/dcm.toml.d/99-x.toml":   "profile = \"a\"\n",
		"etc/dcm/dcm.toml.d/local.toml":  "profile = \"a\"\n",
		"run/dcm/dcm.toml.d/00-run.toml": "",
	}.write(t)
	must(t, WriteSelection(p.Local, "b c"))
	selects(t, p, "b c", p.Local)
	must(t, WriteSelection(p.Runtime, "a"))
	selects(t, p, "a", p.Runtime)
	must(t, WriteSelection(p.Runtime, None))
	selects(t, p, "", p.Runtime)
	must(t, RemoveSelection(p.Runtime))
	selects(t, p, "b c", p.Local)
	must(t, RemoveSelection(p.Local))
	must(t, RemoveSelection(p.Local))
	c, err := Load(p)
	if err != nil || c.Source != p.Local+"/local.toml:1" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func selects(t *testing.T, p Paths, name, dir string) {
	t.Helper()
	c, err := Load(p)
	must(t, err)
	if want := filepath.Join(dir, SelectionFile) + ":3"; c.Selected != name || c.Source != want {
		t.Errorf("selected %q by %s, want %q by %s", c.Selected, c.Source, name, want)
	}
}

func TestASelectionIsOneSafeFileInANewDirectory(t *testing.T) {
	p := DefaultPaths(t.TempDir())
	must(t, WriteSelection(p.Local, "a"))
	entries, err := os.ReadDir(p.Local)
	must(t, err)
	if len(entries) != 1 {
		t.Fatalf("the directory holds %v", entries)
	}
	info, err := entries[0].Info()
	must(t, err)
	if info.Mode() != 0o644 {
		t.Errorf("mode %v, want 0644", info.Mode())
	}
	if text := content(t, filepath.Join(p.Local, SelectionFile)); !strings.HasPrefix(text, "# Written by dcm") {
		t.Errorf("it does not say who wrote it:\n%s", text)
	}
}

func TestASelectionOfAnImpossibleNameIsRefused(t *testing.T) {
	dir := t.TempDir()
	err := WriteSelection(dir, "a\nprofile = \"b\"")
	want := `cannot select profile "a\u000Aprofile = \"b\"": not a name for a profile; accepted: at most 64 bytes of printable text, without " and without blanks at its ends`
	if err == nil || cmp.Diff(want, err.Error()) != "" {
		t.Errorf("got %v, want %s", err, want)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("it wrote %v", entries)
	}
}
