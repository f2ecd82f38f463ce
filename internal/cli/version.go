package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"dcm/internal/host"
)

func versionCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		library := library(c.Context(), h)
		if *asJSON {
			return con.answer(map[string]string{"version": h.Version, "go": runtime.Version(), "arch": runtime.GOARCH, "libamd_smi": library})
		}
		_, err := fmt.Fprintf(con.out, "dcm %s (%s, %s)\nlibamd_smi: %s\n", h.Version, runtime.Version(), runtime.GOARCH, library)
		return err
	}
	return cmd
}
