package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"dcm/internal/app/host"
)

func versionCmd(h *host.Host, con *Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		libraries := h.Libraries(c.Context())
		if *asJSON {
			facts := map[string]string{"version": h.Version, "go": runtime.Version(), "arch": runtime.GOARCH}
			for _, l := range libraries {
				facts[l.Name] = l.State
			}
			return con.answer(facts)
		}
		_, err := fmt.Fprint(con.out, versionText(h, libraries))
		return err
	}
	return cmd
}
