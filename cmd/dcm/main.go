// Command dcm keeps a server's GPUs in the partition profile its administrator
// selected. Called as dcm-generator it is the systemd generator that orders the
// client units after the GPU work, and called as slurm-feature the program that Slurm
// runs without a word of dcm's.
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
	"dcm/internal/service"
)

// version is set when the program is built.
var version = "devel"

func main() {
	switch filepath.Base(os.Args[0]) {
	case "dcm-generator":
		os.Exit(service.Generator("/", os.Args[1:]))
	case "slurm-feature":
		os.Args = append([]string{"dcm", "slurm-feature"}, os.Args[1:]...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(ctx, &host.Host{Root: "/", Version: version}, cli.Stdio(os.Stdout, os.Stderr), os.Args[1:]))
}
