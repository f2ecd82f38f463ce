package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dcm/internal/config"
	"dcm/internal/gpu"
	"dcm/internal/host"
)

func importCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Print the Kubernetes form of the configuration as TOML",
		Long: `Read the configuration of the Kubernetes device-config-manager, a config.json or a
whole ConfigMap in YAML or JSON, and print it as TOML. FILE may be - for standard
input. What it says is checked against this host's GPUs, or against --gpus.`,
		Example: "  dcm import config.json | sudo tee /etc/dcm/dcm.toml.d/imported.toml",
		Args:    args(cobra.ExactArgs(1)),
	}
	gpus := cmd.Flags().Int("gpus", 0, "how many GPUs the nodes have (`N`); 0: as many as this host, if it has any")
	cmd.RunE = func(c *cobra.Command, given []string) error { return importFile(c.Context(), h, con, given[0], *gpus) }
	return cmd
}

func importFile(ctx context.Context, h *host.Host, con *Console, file string, gpus int) error {
	text, err := readInput(file)
	if err != nil {
		return err
	}
	if gpus == 0 {
		// Nothing to count is no error: the file may be for another host.
		devices, _ := h.Node(nil).Devices(ctx)
		gpus = len(gpu.Partitionable(devices))
	}
	toml, warnings, err := config.Import(file, text, gpus)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintln(con.err, con.yellow("dcm: warning: ")+w)
	}
	_, err = io.WriteString(con.out, toml)
	return err
}

func readInput(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}
