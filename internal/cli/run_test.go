package cli

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/exit"
)

func TestACommandIsFoundAsAShellFindsIt(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"program": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("PATH", "/nonexistent:.")
	for _, tt := range []struct {
		command string
		code    int
	}{
		{"program", exit.OK}, {"./program", exit.OK}, {filepath.Join(dir, "program"), exit.OK},
		{"./text", notExecutable}, {dir, notExecutable}, {"/", notExecutable},
		{"missing", notFound}, {"./missing", notFound}, {"./program/x", notFound}, {"", notFound},
	} {
		path, err := found(tt.command)
		if got := exit.Code(err); got != tt.code || (path == "") != (tt.code != exit.OK) {
			t.Errorf("%q is found as %q, %v; status %d, want %d", tt.command, path, err, got, tt.code)
		}
	}
}
