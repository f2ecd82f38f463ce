// Package hosttest has helpers for tests that make the files of a host.
package hosttest

import (
	"os"
	"path/filepath"
	"testing"
)

// Plant writes a file below root.
func Plant(t testing.TB, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
