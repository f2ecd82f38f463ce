// Command dcm keeps a server's GPUs in the partition profile its administrator
// selected. Called as slurm-feature it is the program that Slurm runs without a word of
// dcm's. What systemd runs is cmd/dcm-service.
//
// The command only tells these apart; the packages below internal work.
package main

import (
	"os"
	"path/filepath"

	"dcm/internal/app/cli"
	"dcm/internal/engine/host"
)

// version is set when the program is built.
var version = "devel"

func main() {
	if filepath.Base(os.Args[0]) == "slurm-feature" {
		os.Args = append([]string{"dcm", "slurm-feature"}, os.Args[1:]...)
	}
	cli.Main(&host.Host{Root: "/", Version: version}, os.Args[1:])
}
