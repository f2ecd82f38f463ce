// Package configtest has helpers for the tests of the configuration packages. The tests of
// package config that use them are in config_test, since configtest imports config.
package configtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"dcm/internal/engine/config"
	"dcm/internal/engine/config/source"
)

// Files is a tree of files: the text of each by its path below the root.
type Files map[string]string

// Write writes the files below a new root directory. The user who runs the test owns them.
func (f Files) Write(t testing.TB) config.Paths {
	t.Helper()
	root := t.TempDir()
	for name, text := range f {
		path := filepath.Join(root, name)
		Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return config.DefaultPaths(root)
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

// RootOf returns the root directory of the paths.
func RootOf(p config.Paths) string { return strings.TrimSuffix(p.Cmdline, "/proc/cmdline") }

// Complaint returns the text of the [source.Errors] that Load returns, with paths as on a host.
func Complaint(t *testing.T, p config.Paths) string {
	t.Helper()
	c, err := config.Load(p)
	if err == nil {
		t.Fatalf("Load accepted it: %+v", c)
	}
	var all *source.Errors
	if !errors.As(err, &all) {
		t.Fatalf("Load returned a %T, want *source.Errors: %v", err, err)
	}
	return strings.ReplaceAll(err.Error(), RootOf(p), "")
}

// Load writes and loads the files. The result has paths as on a host.
func Load(t *testing.T, f Files) *config.Config {
	t.Helper()
	p := f.Write(t)
	c, err := config.Load(p)
	Must(t, err)
	c.Source = strings.TrimPrefix(c.Source, RootOf(p))
	c.LastingSource = strings.TrimPrefix(c.LastingSource, RootOf(p))
	for name, at := range c.Origin {
		c.Origin[name] = strings.TrimPrefix(at, RootOf(p))
	}
	for i, w := range c.Warnings {
		c.Warnings[i] = strings.ReplaceAll(w, RootOf(p), "")
	}
	return c
}

// Diff compares configurations without the places and the warnings of their definitions.
func Diff(a, b *config.Config) string {
	x, y := *a, *b
	x.Source, x.LastingSource, x.Origin, x.Warnings = "", "", nil, nil
	y.Source, y.LastingSource, y.Origin, y.Warnings = "", "", nil, nil
	return cmp.Diff(x, y, cmp.FilterPath(func(p cmp.Path) bool {
		return p.String() == "Reservations.Source" || p.String() == "DeclaredClients.Source" || p.String() == "Budgets.Source" || p.String() == "UserReservations.Source"
	}, cmp.Ignore()))
}

// Placed reports an error of the test unless each problem has the file "f", a line of the text,
// and a description in one line.
func Placed(t *testing.T, text string, err error) {
	t.Helper()
	var all *source.Errors
	if !errors.As(err, &all) || len(all.Problems) == 0 {
		t.Fatalf("not an *source.Errors: %v", err)
	}
	for _, p := range all.Problems {
		if p.File != "f" || p.Line < 1 || p.Line > 1+strings.Count(text, "\n") || p.Text == "" {
			t.Errorf("problem outside of the text (found %#v, want a line from 1 to %d)", p, 1+strings.Count(text, "\n"))
		}
		if s := p.String(); strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a problem that is no line of text: %q", s)
		}
	}
}
