package leases

import (
	"os"
	"path/filepath"
	"testing"

	"dcm/internal/exitcode"
)

func TestFindProgram(t *testing.T) {
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
		{"program", exitcode.OK}, {"./program", exitcode.OK}, {filepath.Join(dir, "program"), exitcode.OK},
		{"./text", exitcode.NotExecutable}, {dir, exitcode.NotExecutable}, {"/", exitcode.NotExecutable},
		{"./lost", exitcode.NotFound}, {"./unfit", exitcode.NotExecutable}, {"./plain", exitcode.OK}, {"./empty", exitcode.OK}, {"./bare", exitcode.OK},
		{"missing", exitcode.NotFound}, {"./missing", exitcode.NotFound}, {"./program/x", exitcode.NotFound}, {"", exitcode.NotFound},
	} {
		p, err := findProgram(tt.command)
		if got := exitcode.Code(err); got != tt.code || (p.path == "") != (tt.code != exitcode.OK) {
			t.Errorf("%q is found as %q, %v; status %d, want %d", tt.command, p.path, err, got, tt.code)
		}
	}
}
