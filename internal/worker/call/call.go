// Package call runs a program that takes one request on its standard input, answers it
// on its standard output and ends: how dcm reaches the vendors' libraries, which can
// abort, hang and leak in a process of their own only. It does not know what is asked.
package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
)

const (
	grace  = 5 * time.Second // for a killed process to be gone
	answer = 1 << 20         // what an answer may have
)

// Kind says how asking failed.
type Kind string

// The ways.
const (
	NoProgram Kind = "no-program" // there is none
	NoAnswer  Kind = "no-answer"  // it could not be started, or ended without success
	Deadline  Kind = "deadline"   // it was killed, having run for too long
)

// Error is that of a program that did not end well. It may have answered still.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Way is how to run the program.
type Way struct {
	Args []string
	Attr *syscall.SysProcAttr // of [Group], and what else it is to have
}

// Group lets the program be killed with what it started, and when the caller ends.
func Group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}

// Once runs the program in the first of the ways that the caller may go: the next is for
// one whom the kernel does not let go the one before (EPERM). When it returns, the
// program is gone; only one that the kernel cannot kill, in a driver that hangs, is left
// to itself. The answer is given with an [*Error], too: a program that fails may say
// why.
func Once(ctx context.Context, program string, request []byte, ways ...Way) ([]byte, error) {
	// When ctx ends the process is killed; waiting for that has an end too.
	last, stop := sysfs.Grace(ctx, grace)
	defer stop()
	out, err := sysfs.Within(last, func() ([]byte, error) { return run(ctx, program, request, ways) })
	if ctx.Err() != nil {
		return nil, &Error{Deadline, fmt.Errorf("no answer in time, killed: %w", ctx.Err())}
	}
	var failed *Error
	if err != nil && !errors.As(err, &failed) {
		err = &Error{NoAnswer, err}
	}
	return out, err
}

func run(ctx context.Context, program string, request []byte, ways []Way) (out []byte, err error) {
	// The kernel sends the parent's death signal when the thread ends that started
	// the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, w := range ways {
		if out, err = runIn(ctx, program, request, w); !errors.Is(err, unix.EPERM) {
			break
		}
	}
	return out, err
}

func runIn(ctx context.Context, program string, request []byte, w Way) ([]byte, error) {
	stdout, stderr := &limited{limit: answer}, &limited{limit: 4 << 10}
	cmd := exec.CommandContext(ctx, program, w.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), stdout, stderr
	cmd.Dir = "/"
	// No variable of the caller's steers the library; of a crash one line is enough.
	cmd.Env = []string{"GOTRACEBACK=none", "LANG=C"}
	cmd.SysProcAttr = w.Attr
	// The library may start processes of its own.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, notStarted(err)
	}
	err := cmd.Wait()
	// What it left in the background goes too.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return stdout.kept, fmt.Errorf("%s ended without an answer: %w%s", program, err, firstLine(string(stderr.kept)))
	}
	return stdout.kept, nil
}

func notStarted(err error) error {
	kind := NoAnswer
	if errors.Is(err, fs.ErrNotExist) {
		kind = NoProgram
	}
	return &Error{kind, fmt.Errorf("cannot start it: %w", err)}
}

// limited keeps the first bytes written to it and takes the rest for nothing: a
// library may print without end.
type limited struct {
	kept  []byte
	limit int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.limit - len(l.kept); room > 0 {
		l.kept = append(l.kept, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// firstLine returns ": " and the first line that says something.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return ": " + sanitize.Text(line)
		}
	}
	return ""
}
