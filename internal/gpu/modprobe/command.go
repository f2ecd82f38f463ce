package modprobe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/linux/sysfs"
	"dcm/internal/sanitize"
)

// Program is a program that loads or unloads kernel modules.
type Program string

// The programs of kmod. [Remove] unloads one module, and [Modprobe] with -r also the modules that
// it depends on.
const (
	Modprobe Program = "modprobe"
	Remove   Program = "rmmod"
)

// Run runs the program with args. other replaces the program by a command with its first arguments;
// nil: it does not. If ctx ends while the program is stuck in the kernel, Run returns without it.
// If the module is in use, the error is EBUSY.
func (p Program) Run(ctx context.Context, other []string, args ...string) error {
	command, err := p.command(other)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	text, err := sysfs.Within(ctx, func() (string, error) {
		err := cmd.Run()
		return sanitize.Lines(strings.TrimSpace(stderr.String())), err
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if strings.Contains(text, "in use") {
		err = unix.EBUSY
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && killedBySignal(exit) {
		err = fmt.Errorf("%w: %v", ErrKilled, err)
	}
	return fmt.Errorf("%s: %w%s", strings.Join(append([]string{string(p)}, args...), " "), err, stderrSuffix(text))
}

// ErrKilled means that a signal ended the program. It says nothing about the module, so a retry
// may succeed.
var ErrKilled = errors.New("killed by a signal")

func killedBySignal(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

func stderrSuffix(stderr string) string {
	if stderr == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(stderr), " ")
}

// command finds the program even if PATH lacks the sbin directories.
func (p Program) command(other []string) ([]string, error) {
	if other != nil {
		return other, nil
	}
	path, err := exec.LookPath(string(p))
	if err == nil {
		return []string{path}, nil
	}
	for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
		if found, err := exec.LookPath(dir + string(p)); err == nil {
			return []string{found}, nil
		}
	}
	return nil, err
}
