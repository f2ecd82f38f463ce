// Package cli is dcm's command line. A command parses its options, calls other packages and
// prints the result.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/service"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// Main runs one command line and exits. If a signal ended the command before its work was
// done, the process dies of that signal.
func Main(h *host.Host, args []string) {
	con := console.Stdio(os.Stdout, os.Stderr) // before signals are caught, to see which are ignored
	ctx, stop := exitcode.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := Run(ctx, h, con, args)
	by, _ := errors.AsType[*exitcode.SignalError](context.Cause(ctx))
	stop()
	exitcode.End(status, by)
}

// Run runs one command line and returns its exit status. Errors go to standard error; standard
// output has only results.
func Run(ctx context.Context, h *host.Host, con *console.Console, args []string) int {
	cmd := root(h, con, func(ctx context.Context, con *console.Console, args []string) int {
		other := *h // this command line has its own flags
		return Run(ctx, &other, con, args)
	})
	cmd.SetArgs(withStatus(args))
	cmd.SetOut(con.Out)
	cmd.SetErr(con.Err)
	err := cmd.ExecuteContext(ctx)
	if out, ok := con.Out.(*console.Writer); ok && out.Err != nil {
		err = fmt.Errorf("cannot write to standard output: %w", out.Err)
	}
	if err != nil && err.Error() != "" {
		for line := range strings.Lines(err.Error()) {
			con.Fail(strings.TrimRight(line, "\n"))
		}
	}
	return statusOf(ctx, err)
}

// withStatus adds the command status to its options: a line without a command prints the status.
func withStatus(args []string) []string {
	if len(args) > 0 && slices.Contains([]string{"--json", "--output=json", "-o", "--output", "-ojson", "--long", "--watch"}, args[0]) {
		return append([]string{"status"}, args...)
	}
	return args
}

// statusOf returns the exit status of a command: that of the signal, if a signal ended the
// command before its work was done.
func statusOf(ctx context.Context, err error) int {
	code := service.Code(err)
	if by, ok := errors.AsType[*exitcode.SignalError](context.Cause(ctx)); ok && code == exitcode.Failed {
		return by.Status()
	}
	return code
}
