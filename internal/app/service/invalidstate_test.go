package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"dcm/internal/engine/runstate"
)

// A start of the daemon ends the state of each file that this version cannot read, and keeps the file.
func TestDiscardInvalid(t *testing.T) {
	files := []string{"run/dcm/partitions.json", "run/dcm/state.json", "run/dcm/report.json", "run/dcm/guard.json", "run/dcm/discovered.json", "run/dcm/asked-7-1.json", "run/dcm/when-idle.json", "var/lib/dcm/gpus.json"}
	for name, make := range map[string]func(path string) error{
		"truncated":     func(path string) error { return os.WriteFile(path, []byte(`{"version": 1, "x`), 0o644) },
		"other version": func(path string) error { return os.WriteFile(path, []byte(`{"version": 99}`), 0o644) },
		"link":          func(path string) error { return os.Symlink("/nowhere", path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		h := &host.Host{Root: t.TempDir()}
		for range 2 {
			for _, file := range files {
				hosttest.Plant(t, h.Root, filepath.Dir(file)+"/x", "")
				if err := make(h.Path(file)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if got := len(runstate.Invalid(h.Runtime(), h.KnownGPUs())); got != len(files) {
				t.Errorf("%s: %d files are invalid, want %d", name, got, len(files))
			}
			discardInvalid(h, slog.New(slog.DiscardHandler))
			if left := runstate.Invalid(h.Runtime(), h.KnownGPUs()); len(left) > 0 {
				t.Errorf("%s: still invalid: %v", name, left)
			}
		}
		for _, file := range files {
			if kept, err := filepath.Glob(h.Path(file) + ".invalid-*"); err != nil || len(kept) != 2 {
				t.Errorf("%s: %s: got copies %v, want 2", name, file, kept)
			}
		}
	}
}
