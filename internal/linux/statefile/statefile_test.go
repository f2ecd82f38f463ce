package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

type document struct {
	Version int     `json:"version"`
	Value   float64 `json:"value"`
}

func file(t *testing.T) File[document] {
	t.Helper()
	return File[document]{Path: filepath.Join(t.TempDir(), "a.json"), Version: 2, Field: func(d *document) *int { return &d.Version }}
}

func TestFile(t *testing.T) {
	f := file(t)
	if d, err := f.Read(); d != nil || err != nil {
		t.Errorf("no file: %v, %v", d, err)
	}
	for _, durable := range []bool{false, true} {
		f.Durable = durable
		if err := f.Write(document{Value: 7}); err != nil {
			t.Fatal(err)
		}
		if d, err := f.Read(); err != nil || *d != (document{2, 7}) {
			t.Errorf("%v, %v", d, err)
		}
	}
	for range 2 { // the second time there is nothing to remove
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	if d, err := f.Read(); d != nil || err != nil {
		t.Errorf("removed: %v, %v", d, err)
	}
}

func TestRead_Errors(t *testing.T) {
	for text, want := range map[string]string{
		"{":             "not valid: unexpected end of JSON input",
		`{"version":1}`: "version not supported (found 1, want 2)",
		`{}`:            "version not supported (found 0, want 2)",
	} {
		f := file(t)
		if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := f.Read(); d != nil || err == nil || err.Error() != "state file "+f.Path+": "+want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
		f.Field = nil
		if d, err := f.Read(); (err == nil) != (text != "{") {
			t.Errorf("%s without a version: %v, %v", text, d, err)
		}
	}
}

func TestReplace_RemovesTheOldDocumentOnFailure(t *testing.T) {
	f := file(t)
	if err := f.Write(document{Value: 1}); err != nil {
		t.Fatal(err)
	}
	notJSON := File[func()]{Path: f.Path}
	if err := notJSON.Write(func() {}); err == nil || !strings.Contains(err.Error(), f.Path) {
		t.Errorf("write: %v", err)
	}
	if d, err := f.Read(); d == nil || err != nil {
		t.Errorf("a write that failed left %v, %v", d, err)
	}
	if err := notJSON.Replace(func() {}); err == nil {
		t.Error("a function was written")
	}
	if d, err := f.Read(); d != nil || err != nil {
		t.Errorf("the old document is still there: %v, %v", d, err)
	}
}

// After a downgrade, the files in /run have keys that the older version does not know.
func TestFile_NewerKey(t *testing.T) {
	f := file(t)
	if err := os.WriteFile(f.Path, []byte(`{"version": 2, "value": 7, "newer": {"gpus": ["0000:05:00.0"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := f.Read(); err != nil || *d != (document{2, 7}) {
		t.Errorf("file with a newer key: got %v, %v, want its known keys", d, err)
	}
}

// What may be in the place of a document. Each is invalid, counts as missing, and is replaced by the next
// Write.
func TestFile_Invalid(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"truncated":     func(p string) error { return os.WriteFile(p, []byte(`{"version": 2, "val`), 0o600) },
		"empty":         func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"older":         func(p string) error { return os.WriteFile(p, []byte(`{"version": 1}`), 0o600) },
		"newer":         func(p string) error { return os.WriteFile(p, []byte(`{"version": 3, "value": "x"}`), 0o600) },
		"directory":     func(p string) error { return os.MkdirAll(filepath.Join(p, "full"), 0o700) },
		"symbolic link": func(p string) error { return os.Symlink("/etc/passwd", p) },
		"dangling link": func(p string) error { return os.Symlink("nowhere", p) },
		"fifo":          func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"wrong owner": func(p string) error {
			if os.Getuid() != 0 {
				return syscall.Mkfifo(p, 0o600)
			}
			return errors.Join(os.WriteFile(p, []byte(`{"version": 2}`), 0o600), os.Chown(p, 12345, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := file(t)
			if err := put(f.Path); err != nil {
				t.Fatal(err)
			}
			d, err := f.Read()
			if invalid, ok := errors.AsType[*InvalidError](err); d != nil || !ok || invalid.Path != f.Path {
				t.Errorf("read: %v, %v, want an invalid file", d, err)
			}
			if d, err := f.Valid(); d != nil || err != nil {
				t.Errorf("valid: %v, %v, want a missing file", d, err)
			}
			for range 2 {
				if err := f.Write(document{Value: 7}); err != nil {
					t.Fatal(err)
				}
			}
			if d, err := f.Valid(); err != nil || d == nil || *d != (document{2, 7}) {
				t.Errorf("after a write: %v, %v", d, err)
			}
			if err := errors.Join(f.Remove(), put(f.Path), f.Remove()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the removal: %v", err)
			}
		})
	}
	if text, err := os.ReadFile("/etc/passwd"); err != nil || len(text) == 0 {
		t.Errorf("the target of a link: %v", err)
	}
}
