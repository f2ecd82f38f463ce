// Package surface records what users, programs and administrators depend on: options,
// JSON keys, D-Bus and varlink interfaces, metrics, settings, units and exit statuses. The records are
// the files in the directory golden. A test that finds a difference fails; `make surface`
// writes the files again. A commit that changes one says so in its subject.
package surface

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Write is the environment variable that makes Hold write the files instead of comparing.
const Write = "DCM_SURFACE_WRITE"

// Root returns the repository's directory: the first one with a go.mod, upwards from the
// working directory. For a test, the working directory is the one of its package.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod in the working directory or above it")
		}
	}
}

// Hold compares content with the file golden/name, or writes it there.
func Hold(t testing.TB, name, content string) {
	t.Helper()
	file := filepath.Join(Root(t), "internal/testkit/surface/golden", name)
	if os.Getenv(Write) != "" {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; 'make surface' writes it", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(content, "\n")); diff != "" {
		t.Errorf("%s has changed (-recorded +now); if that is intended, run 'make surface' and say so in the commit's subject:\n%s", name, diff)
	}
}

// Shape lists the keys of a decoded JSON value with their types, one per line and sorted:
// ".gpus[].address string". A key that is data, not a name, is written as *.
func Shape(v any) []string {
	lines := make(map[string]bool)
	shape(lines, "", v)
	return slices.Sorted(maps.Keys(lines))
}

func shape(lines map[string]bool, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if path != "" && len(v) == 0 {
			lines[path+" object"] = true
		}
		for key, inner := range v {
			if !isName(key) {
				key = "*"
			}
			shape(lines, path+"."+key, inner)
		}
	case []any:
		if len(v) == 0 {
			lines[path+"[]"] = true
		}
		for _, inner := range v {
			shape(lines, path+"[]", inner)
		}
	case string:
		lines[path+" string"] = true
	case float64:
		lines[path+" number"] = true
	case bool:
		lines[path+" boolean"] = true
	case nil:
		lines[path+" null"] = true
	default:
		panic(fmt.Sprintf("a value of type %T at %s", v, path))
	}
}

// isName reports whether a key is one that dcm chose: lower case, digits, - and _.
func isName(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	}) && (key[0] < '0' || key[0] > '9')
}
