// Package call runs a program that reads one request from standard input, writes one reply to standard
// output and exits. dcm loads vendors' libraries only in such programs, so that a library that crashes,
// hangs or leaks affects only that process. The package does not interpret requests and replies.
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
	killTimeout = 5 * time.Second // time for a killed process to exit
	maxReply    = 1 << 20         // maximum size of a reply in bytes
	maxStderr   = 4 << 10         // maximum size of the error output in bytes
)

// Kind is the reason why a call failed.
type Kind string

const (
	NoProgram Kind = "no-program" // the program does not exist
	NoAnswer  Kind = "no-answer"  // the program could not be started, or failed
	Deadline  Kind = "deadline"   // the program was killed at the deadline
)

// Error is the error of a call. A reply may have arrived nevertheless.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Way describes one way to run the program.
type Way struct {
	Args []string
	Attr *syscall.SysProcAttr // the attributes of [Group], and others if needed
}

// Group returns attributes for the program: its child processes are killed together with it, and it is
// killed when the caller exits.
func Group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}

// Once runs the program once and returns its reply. If the kernel does not permit one way (EPERM), it
// tries the next. When Once returns, the program has exited, unless it hangs in a driver and cannot be
// killed. With an [*Error], Once may also return a reply, which explains the failure.
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
	// The library must not depend on the caller's environment. GOTRACEBACK=none limits the output of
	// a crash to one line.
	cmd.Env = []string{"GOTRACEBACK=none", "LANG=C"}
	cmd.SysProcAttr = w.Attr
	// Kill the whole group, since the library may start processes.
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

// limited keeps the first bytes written to it and discards the rest, since a library may print without
// end.
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
