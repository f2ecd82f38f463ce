// Command summary runs `go test -json` with its arguments and prints a summary: a line for
// each package and end-to-end test, the reasons of skipped tests, the output of failed tests,
// the running tests if none ended for a while, and the counts. It exits with 1 if a test failed
// or none was run.
//
// All files of the tests are in one directory, and their processes in cgroups of their own.
// Both are removed at the end, or by the next run. This needs root.
//
// With -plain as the first argument it only runs the tests: without root, and with cached results, since
// another directory in each run would make every result new.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dcm/internal/testkit/e2e"
)

// progressInterval is the longest time without output.
const progressInterval = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	green, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
	}
	if err != nil || !green {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (green bool, err error) {
	fmt.Print(hostLimits())
	if len(args) > 0 && args[0] == "-plain" {
		return test(ctx, exec.Command("go", append([]string{"test", "-json"}, args[1:]...)...), args[1:])
	}
	for _, dir := range []string{os.TempDir(), e2e.Large} {
		tidy(dir)
	}
	scratch, release, err := e2e.Scratch(e2e.Large)
	if err != nil {
		return false, err
	}
	defer func() {
		tidy(scratch)
		err = errors.Join(err, release())
	}()
	// Some tests run programs as another user.
	if err := os.Chmod(scratch, 0o755); err != nil {
		return false, err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
	// The mounts of the tests end with their mount namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return test(ctx, cmd, args)
}

// test runs go test with the arguments, and prints its summary.
func test(ctx context.Context, cmd *exec.Cmd, args []string) (green bool, err error) {
	cmd.Stderr = os.Stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// ^C signals only this process, which then ends the tests and cleans up.
	cmd.SysProcAttr.Setpgid = true
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	// The processes of a killed test become children of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return false, err
	}
	cut := context.AfterFunc(ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer cut()
	s := newSummary(os.Stdout)
	s.total = packages(ctx, args)
	if err := s.watch(out, progressInterval); err != nil && ctx.Err() == nil {
		return false, err
	}
	failed := cmd.Wait()
	if ctx.Err() != nil {
		for err := error(nil); !errors.Is(err, unix.ECHILD); {
			_, err = unix.Wait4(-cmd.Process.Pid, nil, 0, nil)
		}
		return false, errors.New("interrupted by a signal")
	}
	var status *exec.ExitError
	if failed != nil && !errors.As(failed, &status) {
		return false, failed
	}
	green = s.end()
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		fmt.Printf("processor time: %.0f s\n", time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds())
	}
	return green && failed == nil, nil
}

// packages returns the number of packages of a command line of go test, or 0.
func packages(ctx context.Context, args []string) int {
	patterns := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, ".") })
	out, err := exec.CommandContext(ctx, "go", append([]string{"list"}, patterns...)...).Output()
	if err != nil {
		return 0
	}
	return strings.Count(string(out), "\n")
}

// tidy removes and lists the files that killed tests left.
func tidy(dir string) {
	swept, err := e2e.Sweep(dir)
	for _, name := range swept {
		fmt.Println("removed the files of a killed test:", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
	}
}
