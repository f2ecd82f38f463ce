package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSweep_HeldDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"dcm-test-1", "dcm-test-2/deep/er", "dcm-test-held", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "dcm-test-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, ok, err := hold(filepath.Join(dir, "dcm-test-held"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, want := range [][]string{{"dcm-test-1", "dcm-test-2"}, nil} {
		got, err := sweep(dir, os.RemoveAll)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			got[i] = filepath.Base(got[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("swept %q, want %q", got, want)
		}
	}
	held.Close()
	if got, err := sweep(dir, os.RemoveAll); err != nil || len(got) != 1 {
		t.Errorf("let go, and swept %q, %v", got, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("directories after the sweep: got %v, %v, want 2", left, err)
	}
}
