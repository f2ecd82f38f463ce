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
	con := cli.Stdio(os.Stdout, os.Stderr) // before signals are: it sees which are ignored
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(ctx, &host.Host{Root: "/", Version: version}, con, os.Args[1:]))
}
