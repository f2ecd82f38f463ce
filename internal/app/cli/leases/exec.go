package leases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"dcm/internal/exitcode"
	"dcm/internal/sanitize"
)

// shell runs a script without a #! line, as execvp(3) does.
const shell = "/bin/sh"

// program is the file of a command.
type program struct{ path string }

// findProgram finds a command as a shell does: in the caller's PATH, relative directories
// included. It fails as the execution would, as far as that can be known before.
func findProgram(command string) (program, error) {
	path, err := exec.LookPath(command)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EISDIR):
		return program{}, exitcode.With(exitcode.NotExecutable, err)
	default:
		return program{}, exitcode.With(exitcode.NotFound, err)
	}
	if by := interpreter(path); by != "" {
		if err := unix.Access(by, unix.X_OK); err != nil {
			return program{}, notExecuted(command, fmt.Errorf("interpreter %s: %w", sanitize.Text(by), err))
		}
	}
	return program{path}, nil
}

// longestLine is how much the kernel reads of a script's first line (BINPRM_BUF_SIZE), in
// bytes.
const longestLine = 256

// interpreter returns the interpreter in a script's first line, "" if there is none or the
// file cannot be read.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, longestLine))
	line, script := bytes.CutPrefix(head, []byte("#!"))
	if err != nil || !script {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// exec replaces this process with the command, and returns only on failure.
func (p program) exec(command, env []string) error {
	err := syscall.Exec(p.path, command, env)
	if errors.Is(err, syscall.ENOEXEC) {
		err = syscall.Exec(shell, append([]string{shell, p.path}, command[1:]...), env)
	}
	return notExecuted(command[0], err)
}

// notExecuted returns an error with the exit status of env(1) and shells.
func notExecuted(command string, err error) error {
	status := exitcode.NotExecutable
	if errors.Is(err, fs.ErrNotExist) {
		status = exitcode.NotFound
	}
	return exitcode.With(status, fmt.Errorf("cannot execute %s: %w", command, err))
}
