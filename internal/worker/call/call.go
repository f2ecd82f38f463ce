// Package call runs a program that reads one request from standard input, writes one reply to
// standard output and exits. dcm uses a vendor's library that way: a library that aborts,
// hangs or leaks affects only its own process. The package does not interpret requests and
// replies.
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
	killTimeout = 5 * time.Second // for a killed process to exit
	maxReply    = 1 << 20         // bytes
	maxStderr   = 4 << 10         // bytes
)

// Kind says how a call failed.
type Kind string

const (
	NoProgram Kind = "no-program" // the program does not exist
	NoAnswer  Kind = "no-answer"  // it could not be started, or failed
	Deadline  Kind = "deadline"   // it was killed at the deadline
)

// Error is the error of a call. The program may have replied nevertheless.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Way is how to run the program.
type Way struct {
	Args []string
	Attr *syscall.SysProcAttr // that of [Group], with more attributes
}

// Group returns attributes with which the program is killed together with its own processes,
// and when the caller exits.
func Group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}

// Once runs the program and returns its reply. It tries the next way if the kernel does not
// permit one (EPERM). When it returns, the program has exited, unless it hangs in a driver and
// the kernel cannot kill it. With an [*Error] there may be a reply, too, that says why the
// program failed.
func Once(ctx context.Context, program string, request []byte, ways ...Way) ([]byte, error) {
	// When ctx ends, the process is killed. The wait for its exit is limited, too.
	last, stop := sysfs.Grace(ctx, killTimeout)
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
	// The kernel sends the parent-death signal when the thread exits that started the child.
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
	stdout, stderr := &limited{limit: maxReply}, &limited{limit: maxStderr}
	cmd := exec.CommandContext(ctx, program, w.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), stdout, stderr
	cmd.Dir = "/"
	// No variable of the caller's environment affects the library. One line of a crash is
	// enough.
	cmd.Env = []string{"GOTRACEBACK=none", "LANG=C"}
	cmd.SysProcAttr = w.Attr
	// The library may start processes of its own.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, notStarted(err)
	}
	err := cmd.Wait()
	// Kill its background processes.
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

// limited keeps the first bytes written to it and discards the rest: a library may print
// without end.
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

// firstLine returns ": " and the first line that is not blank, or "".
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return ": " + sanitize.Text(line)
		}
	}
	return ""
}
