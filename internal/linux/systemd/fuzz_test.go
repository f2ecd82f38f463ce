package systemd

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzGenerate checks that for any names of clients the generator writes only files 50-dcm.conf in
// directories below its own.
func FuzzGenerate(f *testing.F) {
	for _, s := range []string{"gpuagent.service", "vllm@.service", "../up.service", "a/b.service", "a\nb.service", "\x00.service",
		`c\x2d1.socket`, "..service", ".service", "dcm-apply.service", "foo-.service", strings.Repeat("x", 300) + ".service"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		top := t.TempDir()
		dir := filepath.Join(top, "normal")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		Generate(dir, Order{Clients: []string{a, b}, Require: false}) // an error is permitted
		written := 0
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil || strings.Count(rel, "/") != 1 || !strings.HasSuffix(filepath.Dir(rel), ".d") || filepath.Base(rel) != dropin {
				t.Errorf("clients %q and %q: wrote %q", a, b, path)
			}
			written++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if written > 2 {
			t.Errorf("clients %q and %q: %d files", a, b, written)
		}
	})
}
