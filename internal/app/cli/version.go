package cli

import (
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"dcm/internal/app/cli/bundle"
	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

func versionCmd(h *host.Host, con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Args:  console.Args(cobra.NoArgs),
	}
	asJSON := con.JsonFlag(cmd)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		libraries := host.Libraries(c.Context(), h)
		if *asJSON {
			facts := map[string]string{"version": h.Version, "go": runtime.Version(), "arch": runtime.GOARCH}
			for _, l := range libraries {
				facts[l.Name] = l.State
			}
			return con.Answer(facts)
		}
		con.Println(strings.TrimSuffix(bundle.VersionText(h, libraries), "\n"))
		return nil
	}
	return cmd
}
