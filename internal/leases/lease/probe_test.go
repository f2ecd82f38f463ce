package lease

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/engine/runstate"
)

func TestReachable(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"renderD128", "renderD130"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	parts := []runstate.Part{{Name: "a-0", Render: "/renderD128"}, {Name: "a-1", Render: "/renderD129"}, {Name: "a-2"}, {Name: "b-0", Render: "/renderD130"}}
	for _, tt := range []struct {
		name  string
		named []string
		want  string
	}{
		{"no lease", nil, "/renderD128"},
		{"another partition can be opened", []string{"a-0"}, "/renderD130"},
		{"the other partitions have no node", []string{"a-0", "b-0"}, ""},
	} {
		if got := Reachable(root, parts, tt.named); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
