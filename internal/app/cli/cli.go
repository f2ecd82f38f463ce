// Package cli is dcm's command line: a command parses, asks, and renders. What is
// done is done elsewhere; a command's file is used by root alone.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"dcm/internal/app/cli/console"
	"dcm/internal/app/service"
	"dcm/internal/engine/host"
	"dcm/internal/exitcode"
)

// Main executes one command line and ends the process. A command that a signal has ended
// before its work was done dies of that signal.
func Main(h *host.Host, args []string) {
	con := console.Stdio(os.Stdout, os.Stderr) // before signals are received: it sees which are ignored
	ctx, stop := exitcode.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := Run(ctx, h, con, args)
	by, _ := errors.AsType[*exitcode.SignalError](context.Cause(ctx))
	stop()
	exitcode.End(status, by)
}

// Run executes one command line and returns its exit status. What went wrong goes
// to standard error; standard output holds nothing but answers.
func Run(ctx context.Context, h *host.Host, con *console.Console, args []string) int {
	cmd := root(h, con, func(ctx context.Context, con *console.Console, args []string) int {
		other := *h // the flags of a command line are its own
		return Run(ctx, &other, con, args)
	})
	cmd.SetArgs(args)
	cmd.SetOut(con.Out)
	cmd.SetErr(con.Err)
	err := cmd.ExecuteContext(ctx)
	if out, ok := con.Out.(*console.Writer); ok && out.Err != nil {
		err = fmt.Errorf("cannot write the answer: %w", out.Err)
	}
	if err != nil && err.Error() != "" {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(con.Err, con.Red("dcm: ")+strings.TrimRight(line, "\n"))
		}
	}
	return statusOf(ctx, err)
}

// statusOf is the exit status of a command. One that a signal has ended before its work
// was done has the status of that signal.
func statusOf(ctx context.Context, err error) int {
	code := service.Code(err)
	if by, ok := errors.AsType[*exitcode.SignalError](context.Cause(ctx)); ok && code == exitcode.Failed {
		return by.Status()
	}
	return code
}
