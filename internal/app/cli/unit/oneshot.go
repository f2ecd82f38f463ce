package unit

import (
	"github.com/spf13/cobra"

	"dcm/internal/app/cli/console"
	"dcm/internal/engine/host"
)

func OneshotCmd(h *host.Host, con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "oneshot",
		Short: "Put the selected profile on the GPUs, as dcm-apply.service does",
		Long: `Put the selected profile on the GPUs and write /run/dcm/report.json.

This is what dcm-apply.service does. It stops and starts nothing: it refuses to
begin while a process holds a GPU. Use 'dcm apply' to have the client units
restarted around the change.`,
		Args: console.Args(cobra.NoArgs),
		RunE: work(h, con, "oneshot"),
	}
}
