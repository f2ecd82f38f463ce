package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWrite(t *testing.T) {
	refused := errors.New("refused")
	for name, tt := range map[string]struct {
		before string // "": no file
		o      Options
		text   string
		err    error
	}{
		"new":           {"", Options{Mode: 0o644}, "new", nil},
		"replaced":      {"old", Options{Mode: 0o600, SyncDir: true}, "new", nil},
		"not prepared":  {"old", Options{Mode: 0o644, Prepare: func(*os.File) error { return refused }}, "old", refused},
		"check refuses": {"old", Options{Mode: 0o644, Check: func() error { return refused }}, "old", refused},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a.json")
			if tt.before != "" {
				if err := os.WriteFile(path, []byte(tt.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if err := Write(path, []byte("new"), tt.o); !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			text, err := os.ReadFile(path)
			if string(text) != tt.text || err != nil {
				t.Errorf("the file contains %q, %v, want %q", text, err, tt.text)
			}
			if info, err := os.Stat(path); tt.err == nil && (err != nil || info.Mode() != tt.o.Mode) {
				t.Errorf("mode %v, %v, want %v", info.Mode(), err, tt.o.Mode)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"a.json"}) {
				t.Errorf("files %q, want only a.json", got)
			}
		})
	}
}

func TestWrite_MissingDirectory(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "none", "a"), nil, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, name := range []string{"a.json", ".b.json.dcm-7", ".a.json.swp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The temporary file of a killed writer.
	partial := ""
	err := Write(path, nil, Options{Mode: 0o644, Prepare: func(f *os.File) error {
		partial = f.Name() + "0"
		return os.Link(f.Name(), partial)
	}})
	if err := errors.Join(err, Sweep(path)); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); partial == "" || !slices.Equal(got, []string{".a.json.swp", ".b.json.dcm-7", "a.json"}) {
		t.Errorf("files %q after the sweep", got)
	}
	if err := Sweep(filepath.Join(dir, "none", "a")); err != nil {
		t.Errorf("no directory: %v", err)
	}
}
