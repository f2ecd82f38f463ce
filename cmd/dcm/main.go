// Command dcm keeps a server's GPUs in the partition profile its administrator
// selected. Called as dcm-generator it is the systemd generator that orders the
// client units after the GPU work.
//
// The command wires; the packages below internal work.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// version is set when the program is built.
var version = "devel"

func main() {
	if filepath.Base(os.Args[0]) == "dcm-generator" {
		os.Exit(generator("/", os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, newHost(os.Stdout, os.Stderr), os.Args[1:]))
}

// run executes one command line and returns its exit status. What went wrong
// goes to standard error; standard output holds nothing but answers.
func run(ctx context.Context, h *host, args []string) int {
	cmd := root(h)
	cmd.SetArgs(args)
	cmd.SetOut(h.out)
	cmd.SetErr(h.err)
	err := cmd.ExecuteContext(ctx)
	code := exitCode(err)
	if err != nil && err.Error() != "" {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(h.err, h.red("dcm: ")+strings.TrimRight(line, "\n"))
		}
	}
	return code
}
