package configure

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/client"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/config/importer"
	"dcm/internal/engine/host"
	"dcm/internal/frontends/status/gather"
	"dcm/internal/gpu"
	"dcm/internal/gpu/partition"
)

func ImportCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import [--gpus N] FILE...",
		Short: "Convert another program's configuration to TOML",
		Long: `Print the configuration of another program as TOML: of the Kubernetes
device-config-manager (a config.json, or a ConfigMap in YAML or JSON) or of mig-parted.
FILE may be - for standard input. The result is checked against this host's GPUs, or
against --gpus.

For mig-parted, give its config.yaml and, in any order, the files of its service. The
units in hooks.yaml and hooks.sh become clients; override.conf has the selected profile.
A ConfigMap of NVIDIA's GPU operator is accepted too, with the units in its
clients.yaml. Other objects in the file are ignored. Without --gpus, indices become PCI
addresses of this host's GPUs.`,
		Example: "  dcm import config.json | sudo tee /etc/dcm/dcm.toml.d/imported.toml\n" +
			"  dcm import /etc/nvidia-mig-manager/config.yaml | sudo tee /etc/dcm/dcm.toml.d/imported.toml",
		Args: console.Args(cobra.MinimumNArgs(1)),
	}
	gpus := cmd.Flags().Int("gpus", 0, "the file is for nodes with `N` GPUs (default: as many as this host has, if any)")
	cmd.RunE = func(c *cobra.Command, given []string) error { return importFiles(c.Context(), h, con, given, *gpus) }
	return cmd
}

func importFiles(ctx context.Context, h *host.Host, con *console.Console, given []string, gpus int) error {
	var files []importer.File
	for _, name := range given {
		text, err := readInput(name)
		if err != nil {
			return err
		}
		files = append(files, importer.File{Name: name, Text: text})
	}
	var here []partition.GPU
	if gpus == 0 {
		// No GPU is no error: the file may be for another host.
		devices, _ := gather.Devices(ctx, host.OpenNode(h, nil), client.FromDaemon(h))
		gpus = len(gpu.Partitionable(devices))
		for _, d := range devices {
			here = append(here, d.GPU)
		}
	}
	toml, warnings, err := importer.ImportFiles(files, gpus, here)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		con.Warn(w)
	}
	_, err = io.WriteString(con.Out, toml)
	return err
}

// readLimit is more than the importer accepts, so that it reports the size.
const readLimit = 2 << 20

func readInput(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, readLimit))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, readLimit))
}
