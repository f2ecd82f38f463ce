package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionCmd(h *host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [--json]",
		Short: "Print the version",
		Args:  args(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *asJSON {
			return h.answer(map[string]string{"version": version, "go": runtime.Version(), "arch": runtime.GOARCH})
		}
		_, err := fmt.Fprintf(h.out, "dcm %s (%s, %s)\n", version, runtime.Version(), runtime.GOARCH)
		return err
	}
	return cmd
}
