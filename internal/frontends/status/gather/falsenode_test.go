package gather

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"dcm/internal/engine/host"
	"dcm/internal/engine/host/hosttest"
	"dcm/internal/frontends/status"
)

func TestFalseNode(t *testing.T) {
	// devtmpfs is a tmpfs.
	dir, err := os.MkdirTemp("/dev/shm", "dcm-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tests := map[string]struct {
		root string
		make func(path string) error
		want bool
	}{
		"missing":                {dir, func(string) error { return nil }, false},
		"regular file":           {dir, func(path string) error { return os.WriteFile(path, nil, 0o644) }, true},
		"not in devtmpfs":        {t.TempDir(), func(path string) error { return os.WriteFile(path, nil, 0o644) }, false},
		"pipe":                   {dir, func(path string) error { return unix.Mkfifo(path, 0o644) }, false},
		"link to something else": {dir, func(path string) error { return os.Symlink("null", path) }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := &host.Host{Root: filepath.Join(tt.root, t.Name())}
			hosttest.Plant(t, h.Root, "dev/null", "")
			if err := tt.make(h.Path("dev/kfd")); err != nil {
				t.Fatal(err)
			}
			s, err := InventoryOf(t.Context(), h, nil, nil, status.Inventory{})
			if err != nil {
				t.Fatal(err)
			}
			found := len(s.Problems) == 1 && s.Problems[0].State == status.Nodeless && s.Problems[0].Hint != ""
			if found != tt.want || len(s.Problems) > 1 {
				t.Errorf("problems: got %+v, want one: %t", s.Problems, tt.want)
			}
		})
	}
}
