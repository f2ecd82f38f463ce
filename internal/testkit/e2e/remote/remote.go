// Package remote runs commands in a test container over a shared unix socket, or in a virtual
// machine over a serial line. The alternative for containers is to enter the namespaces of
// PID 1. It leaves the command outside of every unit's cgroup and can hang a reboot.
//
// The package is independent of dcm, systemd and containers.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
)

// Command is run as root, in the agent's cgroup.
type Command struct {
	Argv  []string
	Stdin []byte
	Env   []string // in addition to the agent's own
}

// Result is the result of a command that has ended.
type Result struct {
	Stdout, Stderr string
	Code           int // exit status; 128 plus the signal's number if it was killed
}

// frame is one message of a reply: a part of the output, or the exit status.
type frame struct {
	Out, Err []byte `json:",omitempty"`
	Code     *int   `json:",omitempty"`
	Failed   string `json:",omitempty"` // it did not start
}

// Run sends one command to the agent that listens on the socket and collects its output.
// When ctx ends, the command's process group is killed. If the command did not start or was
// killed in this way, Run returns an error, and the result has the output until then.
func Run(ctx context.Context, socket string, c Command) (Result, error) {
	name := strings.Join(c.Argv, " ")
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return Result{}, fmt.Errorf("cannot run %q: %w", name, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(c); err != nil {
		return Result{}, fmt.Errorf("cannot run %q: %w", name, err)
	}
	dec := json.NewDecoder(conn)
	r, err := collect(func(f *frame) error { return dec.Decode(f) })
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return r, fmt.Errorf("%q was interrupted: %w", name, err)
	}
	return r, nil
}

// collect joins the frames of a reply. The last one has a status.
func collect(next func(*frame) error) (Result, error) {
	var stdout, stderr strings.Builder
	for {
		var f frame
		err := next(&f)
		if err == nil && f.Failed != "" {
			err = errors.New(f.Failed)
		}
		stdout.Write(f.Out)
		stderr.Write(f.Err)
		r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
		if err != nil {
			return r, err
		}
		if f.Code != nil {
			r.Code = *f.Code
			return r, nil
		}
	}
}

// Serve runs the commands that arrive on the listener until it is closed.
func Serve(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("cannot accept a command: %w", err)
		}
		go serve(ctx, conn)
	}
}

func serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	var c Command
	if err := json.NewDecoder(conn).Decode(&c); err != nil || len(c.Argv) == 0 {
		return // the caller has disconnected
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the caller sends nothing more, so the read returns when it disconnects
		io.Copy(io.Discard, conn)
		cancel()
	}()
	answer(conn, execute(ctx, c, newStream(conn)))
}

func execute(ctx context.Context, c Command, s *stream) frame {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Stdin = strings.NewReader(string(c.Stdin))
	cmd.Stdout, cmd.Stderr = s.out(), s.err()
	cmd.Env = append(cmd.Environ(), c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return frame{Failed: err.Error()}
	}
	code := cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return frame{Code: &code}
}
