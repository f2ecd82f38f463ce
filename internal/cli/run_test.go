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
	for name, head := range map[string]string{"lost": "#!/nonexistent -x\n", "unfit": "#! " + filepath.Join(dir, "text") + "\n", "plain": "exit 3\n", "empty": "", "bare": "#!\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head), 0o755); err != nil {
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
		{"./text", exit.NotExecutable}, {dir, exit.NotExecutable}, {"/", exit.NotExecutable},
		{"./lost", exit.NotFound}, {"./unfit", exit.NotExecutable}, {"./plain", exit.OK}, {"./empty", exit.OK}, {"./bare", exit.OK},
		{"missing", exit.NotFound}, {"./missing", exit.NotFound}, {"./program/x", exit.NotFound}, {"", exit.NotFound},
	} {
		p, err := findProgram(tt.command)
		if got := exit.Code(err); got != tt.code || (p.path == "") != (tt.code != exit.OK) {
			t.Errorf("%q is found as %q, %v; status %d, want %d", tt.command, p.path, err, got, tt.code)
		}
	}
}
