package amdgpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/attr"
	"dcm/internal/foreign"
)

const (
	smiReadTimeout = 30 * time.Second
	smiSetTimeout  = 2 * time.Minute
	smiGrace       = 5 * time.Second // for a killed process to be gone
	smiOutputLimit = 1 << 20
)

// ask runs dcm-smi with one request. When it returns, dcm-smi is gone; only one
// that the kernel cannot kill, in a driver that hangs, is left to itself.
func (s SMI) ask(ctx context.Context, r smiRequest) (smiReply, error) {
	r.Library = s.Library
	ctx, cancel := context.WithTimeout(ctx, s.timeout(r))
	defer cancel()
	// When ctx ends the process is killed; waiting for that has an end too.
	last, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(smiGrace, stop) })()
	out, err := attr.Within(last, func() ([]byte, error) { return s.run(ctx, r) })
	if ctx.Err() != nil {
		return smiReply{}, s.fail(r, "deadline", fmt.Errorf("no answer in time, killed: %w", ctx.Err()))
	}
	var start *startError
	if errors.As(err, &start) {
		return smiReply{}, s.fail(r, start.kind(), err)
	}
	reply, bad := parseSMIReply(out)
	switch {
	case bad == nil && reply.Error != nil:
		return reply, &SMIError{r.Do, r.GPU, reply.Error.Kind, reply.Error.Status, reply.Error.err()}
	case err != nil:
		return smiReply{}, s.fail(r, "no-answer", err)
	case bad != nil:
		return smiReply{}, s.fail(r, "garbage", bad)
	}
	return reply, nil
}

func (s SMI) timeout(r smiRequest) time.Duration {
	switch {
	case s.Timeout > 0:
		return s.Timeout
	case r.GPU != "":
		return smiSetTimeout
	}
	return smiReadTimeout
}

func (s SMI) fail(r smiRequest, kind string, err error) error {
	return &SMIError{Do: r.Do, GPU: r.GPU, Kind: kind, Err: err}
}

func (s SMI) run(ctx context.Context, r smiRequest) ([]byte, error) {
	request, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	// The kernel sends the parent's death signal when the thread ends that started
	// the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out []byte
	err = error(unix.EPERM)
	for _, i := range isolations() {
		if out, err = s.runIn(ctx, request, i); !errors.Is(err, unix.EPERM) {
			return out, err
		}
	}
	return out, fmt.Errorf("without CAP_SYS_ADMIN, user namespaces or PrivateTmp=yes it would litter /tmp: %w", err)
}

func (s SMI) runIn(ctx context.Context, request []byte, i isolation) ([]byte, error) {
	path := s.Program
	if path == "" {
		path = program
	}
	stdout, stderr := &limited{limit: smiOutputLimit}, &limited{limit: 4 << 10}
	cmd := exec.CommandContext(ctx, path, i.args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), stdout, stderr
	cmd.Dir = "/"
	// No variable of the caller's steers the library; of a crash one line is enough.
	cmd.Env = []string{"GOTRACEBACK=none", "LANG=C"}
	cmd.SysProcAttr = i.attr
	// The library starts processes of its own.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, &startError{err}
	}
	err := cmd.Wait()
	// What it left in the background goes too.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return stdout.Bytes(), fmt.Errorf("%s ended without an answer: %w%s", path, err, firstLine(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// startError is a dcm-smi that could not be started.
type startError struct{ err error }

func (e *startError) Error() string { return "cannot start it: " + e.err.Error() }

func (e *startError) Unwrap() error { return e.err }

func (e *startError) kind() string {
	if errors.Is(e.err, fs.ErrNotExist) {
		return "no-program"
	}
	return "no-answer"
}

// limited keeps the first bytes written to it and takes the rest for nothing: a
// library may print without end.
type limited struct {
	bytes.Buffer
	limit int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.limit - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// firstLine returns ": " and the first line that says something.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return ": " + foreign.Text(line)
		}
	}
	return ""
}
