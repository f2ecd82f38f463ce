// Command dcm is the command line of dcm. If its name is slurm-feature, it runs the command
// of that name, because slurmd passes no arguments. systemd runs cmd/dcm-service.
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
