package amdgpu

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

// modprobe is the command with its first arguments; nil: modprobe.
type modprobe []string

// run runs modprobe with args. If ctx ends while modprobe is stuck in the kernel, it returns
// without it.
func (m modprobe) run(ctx context.Context, args ...string) error {
	command, err := m.command()
	if err != nil {
		return err
	}
	args = append(command[1:len(command):len(command)], args...)
	cmd := exec.CommandContext(ctx, command[0], args...)
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
		err = fmt.Errorf("%w: %v", errKilled, err)
	}
	return fmt.Errorf("%s: %w%s", strings.Join(append([]string{"modprobe"}, args[len(command)-1:]...), " "), err, stderrSuffix(text))
}

// errKilled means that a signal ended modprobe. It says nothing about the driver, so a retry
// may succeed.
var errKilled = errors.New("killed by a signal")

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

// command finds modprobe even if PATH lacks the sbin directories.
func (m modprobe) command() ([]string, error) {
	if m != nil {
		return m, nil
	}
	path, err := exec.LookPath("modprobe")
	if err == nil {
		return []string{path}, nil
	}
	for _, path := range []string{"/usr/sbin/modprobe", "/sbin/modprobe"} {
		if found, err := exec.LookPath(path); err == nil {
			return []string{found}, nil
		}
	}
	return nil, err
}
