package service

import (
	"os"
	"path/filepath"
	"testing"
)

func TestChangedSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if !changedSince(file, "/proc/self") {
		t.Error("a new file is older than this process")
	}
	if changedSince("/proc/self/exe", "/proc/self") {
		t.Error("the program of this process is newer than the process")
	}
	if changedSince(file+"-missing", "/proc/self") || changedSince(file, "/proc/none") {
		t.Error("a missing file or process is compared")
	}
}
