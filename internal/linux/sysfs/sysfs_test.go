package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDir_SameAsPaths(t *testing.T) {
	path := t.TempDir()
	if err := os.Mkdir(filepath.Join(path, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("name 1\n", attributeSize/4)
	for name, text := range map[string]string{"7/mode": " SPX\x1b\n", "7/long": long, "empty": ""} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, name := range []string{"7/mode", "7/long", "empty", "7/none", "7"} {
		got, wrong := dir.Read(name)
		want, err := Read(filepath.Join(path, name))
		if got != want || (err == nil) != (wrong == nil) || err != nil && wrong.Error() != err.Error() || errors.Is(wrong, fs.ErrNotExist) != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: in the directory %q, %v; by the path %q, %v", name, got, wrong, want, err)
		}
	}
	if names, err := NamesIn(dir); err != nil || len(names) != 2 {
		t.Errorf("names %q, %v", names, err)
	}
	if _, err := OpenDir(filepath.Join(path, "empty")); err == nil {
		t.Error("a file was opened as a directory")
	}
}
