// Command dcm keeps a server's GPUs in the partition profile its administrator
// selected. Called as dcm-generator it is the systemd generator that orders the
// client units after the GPU work.
//
// The command only tells the two apart; the packages below internal work.
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
	if filepath.Base(os.Args[0]) == "dcm-generator" {
		os.Exit(service.Generator("/", os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(ctx, &host.Host{Root: "/", Version: version}, cli.Stdio(os.Stdout, os.Stderr), os.Args[1:]))
}
