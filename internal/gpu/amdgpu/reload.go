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

// ReloadError is a failed reload of the driver.
type ReloadError struct {
	UnloadFailed bool // the unload has failed
	Loaded       bool // the driver is loaded now
	Err          error
}

func (e *ReloadError) Error() string {
	switch {
	case e.UnloadFailed && errors.Is(e.Err, context.DeadlineExceeded):
		return fmt.Sprintf("%s has not finished unloading in time and may be left unloaded: %v", driver, e.Err)
	case e.UnloadFailed:
		return fmt.Sprintf("cannot unload %s, nothing was changed and a requested memory mode stays pending: %v", driver, e.Err)
	case e.Loaded:
		return fmt.Sprintf("%s reported a failure when it was loaded: %v", driver, e.Err)
	}
	return fmt.Sprintf("cannot load %s, the driver is not loaded: %v", driver, e.Err)
}

func (e *ReloadError) Unwrap() error { return e.Err }

// DriverInUse reports whether the unload has failed.
func (e *ReloadError) DriverInUse() bool { return e.UnloadFailed }

// Hint says what to do about it.
func (e *ReloadError) Hint() string {
	if errors.Is(e.Err, errKilled) {
		return "Find out what has killed modprobe: the kernel log tells if memory ran out. dcm tries again by itself."
	}
	if e.UnloadFailed {
		return "End what uses the driver (`dcm holders`; a console and snd_hda_intel count too), or reboot."
	}
	return "Load it by hand with `modprobe " + driver + "` and see the kernel log; otherwise reboot."
}

// Reload unloads and loads the driver. After the load, requested memory modes are active,
// and the driver has selected each compute mode.
//
// Once the driver is unloaded, it is loaded again even if ctx has ended, since a node must
// not stay without its driver.
func (n *Node) Reload(ctx context.Context) error {
	if err := n.unload(ctx); err != nil {
		return &ReloadError{UnloadFailed: true, Loaded: true, Err: err}
	}
	if err := n.load(ctx); err != nil {
		return &ReloadError{Loaded: n.Loaded(), Err: err}
	}
	return nil
}

// unload retries while the driver is in use, up to the busy timeout. It checks the module
// and not the exit status, since modprobe -r may fail for another module that amdgpu used.
func (n *Node) unload(ctx context.Context) error {
	tick := time.NewTicker(n.retryInterval)
	defer tick.Stop()
	until := time.Now().Add(n.busyTimeout)
	for {
		err := n.runModprobe(ctx, "-r", driver)
		if err == nil || !n.Loaded() {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || !time.Now().Before(until) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// Load loads the driver if it is not loaded, for example after a reload that was killed.
func (n *Node) Load(ctx context.Context) error {
	if n.Loaded() {
		return nil
	}
	if err := n.load(ctx); err != nil {
		return &ReloadError{Loaded: n.Loaded(), Err: err}
	}
	return nil
}

// load tries twice.
func (n *Node) load(ctx context.Context) error {
	first := n.tryLoad(ctx)
	if first == nil {
		return nil
	}
	second := n.tryLoad(ctx)
	if second == nil {
		return nil
	}
	if first.Error() == second.Error() {
		return fmt.Errorf("%w (twice)", second)
	}
	return errors.Join(first, second)
}

func (n *Node) tryLoad(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(end) < n.loadTimeout {
		alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.loadTimeout)
		defer cancel()
		ctx = alone
	}
	return n.runModprobe(ctx, driver)
}

// Loaded reports whether the driver is loaded.
func (n *Node) Loaded() bool {
	_, err := os.Stat(n.sys("module", driver))
	return err == nil
}

// runModprobe runs modprobe with args. If ctx ends while modprobe is stuck in the kernel, it
// returns without it.
func (n *Node) runModprobe(ctx context.Context, args ...string) error {
	command, err := n.modprobeCommand()
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
var errKilled = errors.New("it was killed")

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

// modprobeCommand finds modprobe even if PATH lacks the sbin directories.
func (n *Node) modprobeCommand() ([]string, error) {
	if n.modprobe != nil {
		return n.modprobe, nil
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
