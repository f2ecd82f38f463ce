// Command dcm keeps a server's GPUs in the partition profile its administrator
// selected. Called as slurm-feature it is the program that Slurm runs without a word of
// dcm's. What systemd runs is cmd/dcm-service.
//
// The command only tells these apart; the packages below internal work.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"dcm/internal/cli"
	"dcm/internal/host"
)

// version is set when the program is built.
var version = "devel"

func main() {
	if filepath.Base(os.Args[0]) == "slurm-feature" {
		os.Args = append([]string{"dcm", "slurm-feature"}, os.Args[1:]...)
	}
	ends := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGINT) { // else it stays so, for what dcm run executes too: a job in the background
		ends = append(ends, syscall.SIGINT)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	os.Exit(cli.Run(ctx, &host.Host{Root: "/", Version: version}, cli.Stdio(os.Stdout, os.Stderr), os.Args[1:]))
}
