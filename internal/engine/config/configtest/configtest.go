// Package configtest has helpers for tests of the packages of configuration. It must not
// import them, except source, so that they can use it.
package configtest

import (
	"dcm/internal/engine/config/source"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// Files is a tree of files: the text of each by its path below the root.
type Files map[string]string

// Write returns a new root directory with the files. They belong to the user of the test.
func (f Files) Write(t testing.TB) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range f {
		path := filepath.Join(root, name)
		Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

// Content returns the text of a file.
func Content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	Must(t, err)
	return string(text)
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Placed fails if a problem does not tell its file, a line that the file has, and
// what is wrong, on one line of text.
func Placed(t *testing.T, text string, err error) {
	t.Helper()
	var all *source.Errors
	if !errors.As(err, &all) || len(all.Problems) == 0 {
		t.Fatalf("not an *source.Errors: %v", err)
	}
	for _, p := range all.Problems {
		if p.File != "f" || p.Line < 1 || p.Line > 1+strings.Count(text, "\n") || p.Text == "" {
			t.Errorf("problem %#v of a text with %d lines", p, 1+strings.Count(text, "\n"))
		}
		if s := p.String(); strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a problem that is no line of text: %q", s)
		}
	}
}
